"""Hardened parsers, a module a file format: bytes in, arrays out, or a `DataFormatError` that says
where.
"""
