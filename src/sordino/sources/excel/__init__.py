"""Sheets of Excel workbooks row by row.

The parts of a workbook, the rows of a sheet, what a cell says.
"""
