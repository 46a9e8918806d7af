"""Graphs of other systems: dumps of Neo4j, and RDF, as a proposed schema and a pipeline that loads them."""

from omnigraph.pipeline.imports.import_proposal import ImportProposal
from omnigraph.pipeline.imports.neo4j_dump import is_neo4j_dump, propose_neo4j
from omnigraph.pipeline.imports.rdf_graph import is_rdf, propose_rdf
from omnigraph.pipeline.imports.rdf_triples import (
    LINES,
    TRIPLES,
    find_rdf_ending,
    make_batches,
    parse_lines,
    parse_rdf,
)

__all__ = [
    "LINES",
    "TRIPLES",
    "ImportProposal",
    "find_rdf_ending",
    "is_neo4j_dump",
    "is_rdf",
    "make_batches",
    "parse_lines",
    "parse_rdf",
    "propose_neo4j",
    "propose_rdf",
]
