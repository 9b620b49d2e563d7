"""Replaces Django's admin site by the console, and adds the pages that belong to no app."""

from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(SimpleAdminConfig):
    """The console's pages are loaded with the URLs (loading.py): commands do without, and start in half the time."""

    default_site = "gateway_project.console.site.ConsoleSite"

    def load_console(self) -> None:
        import gateway_project.console.playground.page
        import gateway_project.console.system.page  # noqa: F401  they add their pages to the site
        from gateway_project.console.display.rows import share_headers
        from gateway_project.console.display.times import show_times
        from gateway_project.console.explain import page as explain_page  # noqa: F401
        from gateway_project.console.search import page as search_page  # noqa: F401
        from gateway_project.console.what_if import page as what_if_page  # noqa: F401

        share_headers()
        show_times()
