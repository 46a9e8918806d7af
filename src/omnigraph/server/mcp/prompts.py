"""What agents are told: the instructions of the server, and prompts that a person may choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp.types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from omnigraph.errors import NotFound, ParameterError
from omnigraph.lazy_dataclass import dataclass

INSTRUCTIONS: Final = """\
This is a versioned, typed property graph. Work with it in this order:
1. Read the schema first (graph_schema); the guide of the query language is a resource.
2. Prefer a stored query to one of your own. Give values as parameters, never inside the text of a query.
3. Never write to main directly: create a branch (graph_branch_create) and write there.
4. Look at what you changed (graph_diff) and try the merge (graph_merge_preview) before you propose it.
5. Give a write a key. Never repeat a write that failed or got lost without its key: it could happen twice.
"""


@dataclass(frozen=True, slots=True)
class GraphPrompt:
    """A prompt: what it is for, its arguments with their meanings, and its text with their names in braces."""

    name: str
    description: str
    arguments: Mapping[str, str]
    text: str

    def describe(self) -> Prompt:
        """Return the prompt as a client lists it."""
        arguments = [
            PromptArgument(name=name, description=meaning, required=True) for name, meaning in self.arguments.items()
        ]
        return Prompt(name=self.name, description=self.description, arguments=arguments)

    def fill(self, given: Mapping[str, str]) -> GetPromptResult:
        """Return the prompt with values for its arguments."""
        wrong = sorted({*self.arguments} ^ {*given})
        if wrong:
            known = ", ".join(self.arguments)
            raise ParameterError(f"the arguments of '{self.name}' are wrong: {', '.join(wrong)}", hint=f"give {known}")
        content = TextContent(type="text", text=self.text.format_map(given))
        return GetPromptResult(description=self.description, messages=[PromptMessage(role="user", content=content)])


PROMPTS: Final = (
    GraphPrompt(
        "explore",
        "Find out what the graph knows about something.",
        {"topic": "what you want to know"},
        "Find out what the graph knows about: {topic}\n\n"
        "Read the schema with graph_schema. List the stored queries; use one if it fits. Otherwise write a query, "
        "check it with graph_lint, and run it with graph_query. Follow edges with graph_neighbors from entities that "
        "matter. Say which queries you ran, at which commit, and what the graph does not know.",
    ),
    GraphPrompt(
        "propose_change",
        "Make a change on a branch of its own and show it for review.",
        {"change": "what should be different", "branch": "the name of the new branch"},
        "Propose this change of the graph: {change}\n\n"
        "1. Read the schema and the entities concerned.\n"
        "2. Create the branch '{branch}' with graph_branch_create.\n"
        "3. Write there with graph_mutate or graph_load, with a message that says why, and a key.\n"
        "4. Show graph_diff of '{branch}' alone, and graph_merge_preview into main.\n"
        "Do not merge. End with what changes, entity by entity, and what a reviewer should look at.",
    ),
    GraphPrompt(
        "review_branch",
        "Review what a branch would change.",
        {"branch": "the branch to review", "target": "the branch that it is meant for"},
        "Review the branch '{branch}' for a merge into '{target}'.\n\n"
        "Look at graph_commits of the branch, graph_diff of '{target}' and '{branch}' with each entity, and "
        "graph_merge_preview. For every change say whether it is right and what it is based on, and whether something "
        "that depends on it should have changed too (graph_neighbors). List conflicts, and who decides. Do not merge.",
    ),
)


def find_prompt(name: str) -> GraphPrompt:
    """Return a prompt by name."""
    for prompt in PROMPTS:
        if prompt.name == name:
            return prompt
    raise NotFound(f"no prompt '{name}'", hint=f"there are {', '.join(each.name for each in PROMPTS)}")
