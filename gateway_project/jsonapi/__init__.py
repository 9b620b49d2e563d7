"""What all resources of the management API share: one dialect of JSON:API, strict in what it accepts.

names.py translates names; documents.py reads and writes bodies; problems.py turns what goes wrong into the
error body; filters.py and paging.py read query parameters; fields.py and serializers.py check attributes;
viewsets.py puts it together, and routes.py gives a viewset its paths.
"""
