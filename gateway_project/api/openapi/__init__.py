"""The OpenAPI document at /schema/ and the page made of it at /docs/: derived from what the routes declare.

endpoints.py is how a view that is no resource says what it takes and answers; resources.py reads the same from
a resource's viewset; schemas.py turns serializers into JSON schemas; answers.py knows errors, headers and media
types; document.py puts it together; page.py makes it readable; views.py serves both.
"""
