"""A plan as one HTML page that needs nothing else: figures, tables and sentences.

`data` says what it shows, `html` makes the page of it; the figures are drawn in the browser by the
scripts in `assets` with plotly.js.
"""

from magis.report.page.data import diff_data, report_data
from magis.report.page.html import page_text, write_page

__all__ = ["diff_data", "page_text", "report_data", "write_page"]
