"""What all resources of the management API share: one dialect of JSON:API, strict in what it accepts.

names.py translates names; requests.py and documents.py read and write bodies; problems.py makes error bodies of
exceptions; filters.py and paging.py read query parameters; fields.py validates attributes; response_specs.py describes
responses; viewsets.py combines them with licence.py (the licence gate) and audit.py (the log); routes.py makes paths.
"""
