"""Each requirement of security, and the tests that prove it. The tests of the table exist and run each day."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

TABLE: Final[dict[str, tuple[str, ...]]] = {
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


@pytest.mark.parametrize("guard", sorted({guard for guards in TABLE.values() for guard in guards}))
def test_a_proof_exists_and_runs_each_day(guard: str) -> None:
    file, _, name = guard.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1
    assert not any("mark.slow" in ast.unparse(each) for each in found[0].decorator_list)
