"""Contracting: how contracts come to be: saved answers, proposals, a first file, cases, and what a wait would make of an answer."""
