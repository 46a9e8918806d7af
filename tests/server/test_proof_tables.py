"""Each requirement of security, and each known defect of release 0.8, with the tests that show how it is here.

The tests of the tables exist and run each day.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

SECURITY: Final[dict[str, tuple[str, ...]]] = {
    "every route has declared asks, and none answers before they are asked": (
        "server/test_route_asks.py::test_a_route_that_does_not_declare_its_asks_cannot_be_made",
        "server/test_server_errors.py::test_no_route_answers_before_it_knows_who_asks",
        "server/test_server_policy.py::test_who_has_no_right_gets_no_further_than_the_gate",
    ),
    "the actor comes from the token only": (
        "server/test_server_writes.py::test_nobody_writes_under_another_name",
        "server/test_server_writes.py::test_a_mutation_is_a_commit_of_the_actor_of_the_token",
    ),
    "revocation and expiry work at once": (
        "server/test_server_process_live.py::test_a_token_revoked_and_a_stop_that_waits_for_work",
        "server/test_server_tokens.py::test_a_token_ends_in_time",
        "server/test_server_sessions.py::test_codes_and_sessions_end_with_their_time_and_their_run",
    ),
    "tokens are nowhere in clear": (
        "server/test_server_hostile.py::test_the_token_is_nowhere_in_clear",
        "server/test_server_audit.py::test_every_request_has_a_line_and_no_line_has_a_secret",
        "server/test_server_sessions.py::test_a_code_gives_a_token_once",
    ),
    "a start that is not safe is refused": (
        "server/test_server_tokens.py::test_serve_refuses_a_start_that_is_not_safe",
        "server/test_server_tokens.py::test_a_start_that_would_let_strangers_in_is_refused",
        "server/test_server_tokens.py::test_a_file_that_others_may_read_is_refused",
    ),
    "other hosts and origins are refused": (
        "server/test_server_hostile.py::test_a_name_that_is_not_ours",
        "server/test_server_errors.py::test_other_names_and_origins_are_refused",
        "page/test_origins.py::test_a_page_of_another_origin_reads_nothing",
        "page/test_origins.py::test_a_page_of_another_origin_writes_nothing",
        "page/test_origins.py::test_another_name_for_this_machine_is_refused",
    ),
    "CORS only for listed origins": ("server/test_server_hostile.py::test_which_pages_may_ask",),
    "bodies: size, bombs, depth, slow senders": (
        "server/test_server_hostile.py::test_a_bomb_is_not_unpacked",
        "server/test_server_hostile.py::test_headers_that_do_not_come_to_an_end",
        "server/test_server_hostile.py::test_a_body_that_trickles",
        "server/test_server_hostile.py::test_what_is_no_proper_request",
        "server/test_server_writes.py::test_bodies_have_limits",
        "server/test_server_errors.py::test_bodies_that_are_not_json_objects",
    ),
    "no path, URI or host name leaves": ("server/test_server_errors.py::test_no_body_names_the_place_of_the_graph",),
    "names cannot escape": (
        "server/test_server_errors.py::test_names_cannot_escape",
        "server/test_server_fuzz.py::test_no_request_is_too_much",
    ),
    "blobs and exports cannot run as pages": (
        "server/test_server_feed.py::test_a_blob_is_bytes_to_save",
        "page/test_origins.py::test_a_blob_of_html_runs_nothing",
    ),
    "headers on all answers": ("server/test_server_hostile.py::test_every_answer_keeps_browsers_from_guessing",),
    "nothing outbound but embeddings": ("server/test_server_hostile.py::test_nothing_calls_out",),
    "a policy cannot be passed": (
        "server/test_server_policy.py::test_what_names_a_forbidden_type_is_refused",
        "server/test_server_policy.py::test_what_does_not_name_it_leaves_it_out",
        "server/test_server_policy.py::test_a_forbidden_type_is_not_written_merged_or_reverted",
        "server/test_server_policy.py::test_a_forbidden_branch_cannot_be_read_and_looks_like_one_that_is_not_there",
    ),
    "guessing tells nothing": (
        "server/test_server_policy.py::test_a_forbidden_branch_cannot_be_read_and_looks_like_one_that_is_not_there",
        "server/test_server_policy.py::test_stored_queries_are_those_that_the_actor_may_invoke",
        "server/test_server_sessions.py::test_a_code_gives_a_token_once",
    ),
    "forwarded headers count from trusted proxies only": (
        "server/test_server_hostile.py::test_whose_word_about_addresses_counts",
        "server/test_server_errors.py::test_nobody_else_names_an_address",
    ),
}


DEFECTS: Final[dict[str, tuple[str, ...]]] = {
    "D1 a request has no time limit and no budget": (
        "server/test_server_errors.py::test_a_deadline_ends_a_read_and_a_write",
        "server/test_server_errors.py::test_a_client_that_goes_away_cancels_its_work",
        "server/test_server_limits.py::test_a_query_that_would_make_too_many_rows_is_refused",
        "server/test_server_reads.py::test_pages_are_of_one_commit_and_nothing_is_cut_in_silence",
        "server/test_server_operations.py::test_requests_are_listed_and_cancelled",
    ),
    "D2 after a cut connection the outcome is unknown": (
        "server/test_server_keys.py::test_a_repeated_key_gives_the_one_commit",
        "server/test_server_keys.py::test_a_txn_is_applied_once",
        "server/test_server_kills.py::test_a_connection_that_is_cut_after_the_request",
        "server/test_server_operations.py::test_an_operation_whose_process_died_is_found_in_the_graph",
    ),
    "D3 new tokens, queries and policies need a restart": (
        "server/test_server_tokens.py::test_a_running_server_follows_the_file",
        "server/test_server_queries.py::test_edits_are_followed_and_bad_ones_kept_out",
        "server/test_server_policy.py::test_an_edited_policy_holds_for_the_next_request",
    ),
    "D4 writers are admitted by memory": ("server/test_server_errors.py::test_one_actor_cannot_take_all_turns",),
    "D5 a dead writer blocks the next one": (
        "server/test_server_kills.py::test_killed_at_a_write_the_repeated_key_is_one_commit",
        "server/test_server_operations.py::test_upkeep_is_an_operation",
    ),
    "D6 one graph that does not open stops the server": (
        "server/test_server_config.py::test_a_graph_that_cannot_be_opened_is_quarantined_alone_and_heals",
    ),
    "D7 a graph that does not open is said not to exist": (
        "server/test_server_config.py::test_a_graph_that_cannot_be_opened_is_quarantined_alone_and_heals",
    ),
    "D8 new graphs need a restart": (
        "server/test_server_config.py::test_an_edit_holds_for_the_next_request_and_a_wrong_one_changes_nothing",
    ),
    "D9 without a policy no token can write": (
        "server/test_server_errors.py::test_a_role_is_a_ceiling",
        "server/test_server_writes.py::test_a_mutation_is_a_commit_of_the_actor_of_the_token",
    ),
    "D10 the catalog shows every query to everybody": (
        "server/test_server_policy.py::test_stored_queries_are_those_that_the_actor_may_invoke",
        "server/test_server_policy.py::test_a_grant_lets_a_query_do_what_its_caller_may_not",
    ),
    "D11 there is no MCP": (
        "server/test_server_mcp.py::test_an_agent_explores_proposes_on_a_branch_and_shows_the_difference",
    ),
    "D12 a commit is taken for a branch when rights are asked": (
        "server/test_server_policy.py::test_a_forbidden_branch_cannot_be_read_and_looks_like_one_that_is_not_there",
    ),
    "D13 tokens have no role and no end": (
        "server/test_server_tokens.py::test_a_token_ends_in_time",
        "server/test_server_errors.py::test_a_role_is_a_ceiling",
    ),
    "D14 some errors are plain text": (
        "server/test_server_errors.py::test_a_wrong_content_type_method_and_path",
        "server/test_server_hostile.py::test_what_is_no_proper_request",
        "server/test_server_fuzz.py::test_no_request_is_too_much",
    ),
    "D15 an export is held in memory": (
        "server/test_server_crowd.py::test_slow_readers_of_many_rows_leave_room_for_others",
    ),
    "D16 SIGTERM cuts requests": (
        "server/test_server_process_live.py::test_a_token_revoked_and_a_stop_that_waits_for_work",
        "server/test_server_feed.py::test_events_go_on_until_the_server_drains",
    ),
    "D17 a stranger learns what exists by 404": (
        "server/test_server_policy.py::test_a_forbidden_branch_cannot_be_read_and_looks_like_one_that_is_not_there",
        "server/test_server_policy.py::test_who_has_no_right_gets_no_further_than_the_gate",
    ),
    "D18 a branch called merge cannot be used": (
        "server/test_server_writes.py::test_branches_with_slashes_and_a_branch_called_merge",
    ),
    "D19 Bearer in one case, and no challenge": (
        "server/test_server_errors.py::test_the_scheme_of_a_token_may_be_written_in_any_case",
        "server/test_server_errors.py::test_no_route_answers_before_it_knows_who_asks",
    ),
    "D20 who may read some branches cannot list them": (
        "server/test_server_policy.py::test_lists_have_what_may_be_read",
    ),
    "D21 storage locations leak": (
        "server/test_server_errors.py::test_no_body_names_the_place_of_the_graph",
        "server/test_server_policy.py::test_graphs_and_actions_are_those_that_the_policy_leaves",
    ),
    "D22 clients trail the server": (
        "server/test_server_reads.py::test_the_description_of_the_routes_is_the_one_in_the_documentation",
        "remote/test_remote_verbs.py::test_the_signatures_are_the_same",
    ),
}
"""The defects that its users know, by the numbers of the specification."""
SLOW: Final = frozenset({"server/test_server_crowd.py::test_slow_readers_of_many_rows_leave_room_for_others"})
"""What needs more rows than a test of each day can make."""


def test_no_defect_is_left_out() -> None:
    assert [each.partition(" ")[0] for each in DEFECTS] == [f"D{number}" for number in range(1, 23)]


@pytest.mark.parametrize(
    "guard", sorted({guard for table in (SECURITY, DEFECTS) for guards in table.values() for guard in guards})
)
def test_a_proof_exists_and_runs_each_day(guard: str) -> None:
    file, _, name = guard.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1
    marks = [ast.unparse(each) for each in found[0].decorator_list] + [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    assert guard in SLOW or not any(re.match(r"\[?(.*, )?pytest\.mark\.slow", mark) for mark in marks)
