"""The paths below /me/."""

from django.urls import path

from gateway_project.me import account, keys, log, login, models, overview, second_factor, usage

app_name = "me"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("login/", login.login_page, name="login"),
    path("login/code/", login.second_step_page, name="login-code"),
    path("logout/", login.log_out, name="logout"),
    path("models/", models.model_list, name="models"),
    path("usage/", usage.usage, name="usage"),
    path("requests/", log.request_list, name="requests"),
    path("requests/<int:entry_id>/", log.request_page, name="request"),
    path("account/", account.account, name="account"),
    path("account/sessions/<uuid:session_id>/end/", account.end_session, name="session-end"),
    *[path(f"second-factor/{route}", view, name=name) for route, name, view in second_factor.PAGES],
    path("keys/", keys.key_list, name="keys"),
    path("keys/new/", keys.create, name="key-create"),
    path("keys/<int:key_id>/rotate/", keys.rotate, name="key-rotate"),
    path("keys/<int:key_id>/delete/", keys.delete, name="key-delete"),
]
