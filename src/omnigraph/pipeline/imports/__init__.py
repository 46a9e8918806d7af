"""Graphs of other systems: dumps of Neo4j, and RDF, as a proposed schema and a pipeline that loads them."""

from omnigraph.pipeline.imports.import_proposal import ImportProposal
from omnigraph.pipeline.imports.neo4j_dump import is_neo4j_dump, propose_neo4j

__all__ = ["ImportProposal", "is_neo4j_dump", "propose_neo4j"]
