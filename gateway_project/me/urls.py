"""The paths below /me/."""

from django.urls import path

from gateway_project.me import access, account, keys, log, login, models, overview, usage

app_name = "me"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("login/", login.login_page, name="login"),
    path("logout/", login.log_out, name="logout"),
    path("models/", models.model_list, name="models"),
    path("usage/", usage.usage, name="usage"),
    path("requests/", log.request_list, name="requests"),
    path("requests/<int:entry_id>/", log.request_page, name="request"),
    path("account/", account.account, name="account"),
    path("account/sessions/<uuid:session_id>/end/", account.end_session, name="session-end"),
    path("access/", access.overview, name="access"),
    path("access/new/<slug:kind>/", access.ask, name="access-ask"),
    path("access/<int:request_id>/withdraw/", access.withdraw, name="access-withdraw"),
    path("access/<int:request_id>/decide/", access.decide_request, name="access-decide"),
    path("keys/", keys.key_list, name="keys"),
    path("keys/new/", keys.create, name="key-create"),
    path("keys/<int:key_id>/rotate/", keys.rotate, name="key-rotate"),
    path("keys/<int:key_id>/delete/", keys.delete, name="key-delete"),
]
