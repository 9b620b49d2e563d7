"""Pages beside the table of access tests: their run, their import and their export."""

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminTextareaWidget

from gateway_project.api.audit import start_export
from gateway_project.console.site import console_site
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import GatewayError
from rules.access_tests.admin import link_to_model
from rules.access_tests.documents import MAX_BYTES, read_document, write_document
from rules.access_tests.importing import import_access_tests
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import AccessTest


class ImportForm(forms.Form):
    """A file, or its text."""

    # Unfold's script writes the name of the chosen file into this widget, and fails without it.
    file = forms.FileField(
        required=False,
        label="File",
        help_text="A YAML file, as the export writes it.",
        widget=UnfoldAdminFileFieldWidget,
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or the text of the file",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 10, "spellcheck": "false"}),
    )

    def document(self) -> str:
        """The text of the file, as much of it as may be imported."""
        upload = self.cleaned_data["file"]
        if isinstance(upload, UploadedFile):
            return upload.read(MAX_BYTES + 1).decode(errors="replace")
        return self.cleaned_data["text"]


@console_site().page("rules/accesstest/run/", name="access-tests-run")
def run_tests(request: HttpRequest) -> HttpResponse:
    """How many tests hold, and those that fail."""
    tests = list(AccessTest.objects.shown())
    pairs = zip(tests, verdicts_of(tests), strict=True)
    failures = [(test, verdict, link_to_model(test)) for test, verdict in pairs if not verdict.holds]
    summary = f"{len(tests) - len(failures):,} of {len(tests):,} access tests hold."
    page = console_site().context(request, "Run of the access tests", failures=failures, summary=summary)
    return TemplateResponse(request, "console/access_tests_run.html", page)


@console_site().page("rules/accesstest/import/", name="access-tests-import")
def import_tests(request: HttpRequest) -> HttpResponse:
    """The form; POST stores the tests of the file."""
    form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
    if form.is_valid():
        try:
            with races_as_conflicts(), transaction.atomic():
                result = import_access_tests(read_document(form.document()))
        except GatewayError as error:
            form.add_error(None, capfirst(error.sentence))
        else:
            messages.success(request, result.sentence)
            return HttpResponseRedirect(reverse("admin:rules_accesstest_changelist"))
    page = console_site().context(request, "Import access tests", form=form)
    return TemplateResponse(request, "console/access_tests_import.html", page)


@console_site().page("rules/accesstest/export/", name="access-tests-export", part=True)
@require_POST
def export_tests(request: HttpRequest) -> HttpResponse:
    """All tests as a file; the audit says who took it."""
    text = write_document(AccessTest.objects.shown())
    headers = start_export("access-tests", {}, file_name="access-tests.yaml")
    return HttpResponse(text, content_type="application/yaml", headers=headers)
