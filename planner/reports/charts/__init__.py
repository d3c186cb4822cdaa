"""Drawings for pages and files: SVG pictures, and tables whose cells are drawn."""
