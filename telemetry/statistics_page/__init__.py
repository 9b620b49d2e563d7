"""The statistics page of the console: usage by one dimension or two as totals, a chart, a table and a CSV file."""
