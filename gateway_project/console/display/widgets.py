"""Widgets for forms that stand in the console and on the pages for users."""

from django import forms
from unfold.widgets import INPUT_CLASSES


class NativeSelect(forms.Select):
    """The browser's own: the theme's needs a font of icons that the pages for users do not load."""

    def __init__(self) -> None:
        super().__init__({"class": " ".join(INPUT_CLASSES)})
