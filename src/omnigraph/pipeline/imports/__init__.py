"""Graphs of other systems: dumps of Neo4j, RDF and GraphAr, as a proposed schema and a pipeline that loads them."""

from omnigraph.pipeline.imports.graphar_graph import (
    DESTINATION_INDEX,
    GRAPHAR,
    SOURCE_INDEX,
    VERTEX_INDEX,
    GraphArGroup,
    GraphArVertices,
    is_graphar,
    propose_graphar,
    read_graphar,
)
from omnigraph.pipeline.imports.import_proposal import ImportProposal
from omnigraph.pipeline.imports.neo4j_dump import propose_neo4j
from omnigraph.pipeline.imports.neo4j_files import is_neo4j_dump
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
    "DESTINATION_INDEX",
    "GRAPHAR",
    "LINES",
    "SOURCE_INDEX",
    "TRIPLES",
    "VERTEX_INDEX",
    "GraphArGroup",
    "GraphArVertices",
    "ImportProposal",
    "find_rdf_ending",
    "is_graphar",
    "is_neo4j_dump",
    "is_rdf",
    "make_batches",
    "parse_lines",
    "parse_rdf",
    "propose_graphar",
    "propose_neo4j",
    "propose_rdf",
    "read_graphar",
]
