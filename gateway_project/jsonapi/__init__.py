"""What all resources of the management API share: one dialect of JSON:API, strict in what it accepts.

names.py translates names; requests.py and documents.py read and write bodies; problems.py turns what goes wrong into
the error body; filters.py and paging.py read query parameters; fields.py checks attributes; shapes.py says how answers
differ; viewsets.py puts it together, asks licence.py and tells audit.py; routes.py gives a viewset its paths.
"""
