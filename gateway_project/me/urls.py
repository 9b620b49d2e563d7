"""The paths below /me/."""

from django.urls import path

from gateway_project.me import access, account, keys, log, login, model_list, overview, second_factor, usage
from gateway_project.me.groups import accounts, limits, members, pages, rules
from gateway_project.me.groups import log as group_log
from gateway_project.me.site import redirect_to_slash

app_name = "me"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("login/", login.login_page, name="login"),
    path("login/code/", login.second_step_page, name="login-code"),
    path("logout/", login.log_out, name="logout"),
    path("models/", model_list.model_list, name="models"),
    path("groups/", pages.group_list, name="groups"),
    path("groups/<int:group_id>/", members.member_list, name="group"),
    path("groups/<int:group_id>/members/<int:user_id>/admin/", members.appoint, name="group-member-admin"),
    path("groups/<int:group_id>/members/<int:user_id>/remove/", members.remove, name="group-member-remove"),
    path("groups/<int:group_id>/keys/", pages.account_list, name="group-keys"),
    path("groups/<int:group_id>/limits/", limits.limit_list, name="group-limits"),
    path("groups/<int:group_id>/limits/new/", limits.create, name="group-limit-create"),
    path("groups/<int:group_id>/rules/", rules.rule_list, name="group-rules"),
    path("groups/<int:group_id>/log/", group_log.entry_list, name="group-log"),
    path("groups/<int:group_id>/log/<int:entry_id>/", group_log.entry_page, name="group-entry"),
    path("groups/<int:group_id>/usage/", group_log.usage, name="group-usage"),
    path("group-limits/<int:limit_id>/", limits.change, name="group-limit"),
    path("group-limits/<int:limit_id>/delete/", limits.delete, name="group-limit-delete"),
    path("groups/<int:group_id>/accounts/new/", accounts.create, name="group-account-create"),
    path("groups/<int:group_id>/rules/new/", rules.create, name="group-rule-create"),
    path("group-accounts/<int:account_id>/", accounts.account_page, name="group-account"),
    path("group-accounts/<int:account_id>/lock/", accounts.lock, name="group-account-lock"),
    path("group-accounts/<int:account_id>/delete/", accounts.delete, name="group-account-delete"),
    path("group-accounts/<int:account_id>/keys/new/", accounts.new_key, name="group-key-create"),
    path("group-accounts/<int:account_id>/keys/<int:key_id>/rotate/", accounts.rotate, name="group-key-rotate"),
    path("group-accounts/<int:account_id>/keys/<int:key_id>/delete/", accounts.remove_key, name="group-key-delete"),
    path("group-rules/<int:rule_id>/", rules.change, name="group-rule"),
    path("group-rules/<int:rule_id>/delete/", rules.delete, name="group-rule-delete"),
    path("usage/", usage.usage, name="usage"),
    path("requests/", log.request_list, name="requests"),
    path("requests/<int:entry_id>/", log.request_page, name="request"),
    path("account/", account.account, name="account"),
    path("account/sessions/<uuid:session_id>/end/", account.end_session, name="session-end"),
    *[path(f"second-factor/{route}", view, name=name) for route, name, view in second_factor.PAGES],
    path("access/", access.overview, name="access"),
    path("access/new/<slug:kind>/", access.ask, name="access-ask"),
    path("access/<int:request_id>/withdraw/", access.withdraw, name="access-withdraw"),
    path("access/<int:request_id>/decide/", access.decide_request, name="access-decide"),
    path("keys/", keys.key_list, name="keys"),
    path("keys/new/", keys.create, name="key-create"),
    path("keys/<int:key_id>/rotate/", keys.rotate, name="key-rotate"),
    path("keys/<int:key_id>/delete/", keys.delete, name="key-delete"),
    path("<path:address>", redirect_to_slash, name="missing"),
]
