"""Loads: records and frames of any size, read once, checked against every rule, made one commit."""

from omnigraph.write.load.conversion import can_convert
from omnigraph.write.load.frames import BATCH_ROWS, Frame, Shape, can_be_end, frame_types, reader_of, shape_of
from omnigraph.write.load.gather import MOST_HELD
from omnigraph.write.load.incoming import HeldRows, Home, IncomingRows, StagedRows, rows_again, whole_rows
from omnigraph.write.load.intake import Admitted, Draft, Rejected, admit
from omnigraph.write.load.load_operation import HERE, IncomingTable, Mode, stage_rows
from omnigraph.write.load.places import Numbers, Place
from omnigraph.write.load.quarantine import MOST_VIOLATIONS, Collected, RejectedRow, Target, rejected_row, target_of
from omnigraph.write.load.records import found_in
from omnigraph.write.load.run import Engine, Indexes, Input, Intake, LoadOptions, LoadResult, OnError, Read, load
from omnigraph.write.load.sources import Lines, Source

__all__ = [
    "BATCH_ROWS",
    "HERE",
    "MOST_HELD",
    "MOST_VIOLATIONS",
    "Admitted",
    "Collected",
    "Draft",
    "Engine",
    "Frame",
    "HeldRows",
    "Home",
    "IncomingRows",
    "IncomingTable",
    "Indexes",
    "Input",
    "Intake",
    "Lines",
    "LoadOptions",
    "LoadResult",
    "Mode",
    "Numbers",
    "OnError",
    "Place",
    "Read",
    "Rejected",
    "RejectedRow",
    "Shape",
    "Source",
    "StagedRows",
    "Target",
    "admit",
    "can_be_end",
    "can_convert",
    "found_in",
    "frame_types",
    "load",
    "reader_of",
    "rejected_row",
    "rows_again",
    "shape_of",
    "stage_rows",
    "target_of",
    "whole_rows",
]
