// Package doctree reads a configuration file, YAML or JSON, into a tree in which every
// value knows its line.
//
// It is stricter than the formats: one document, a mapping at the top, no duplicate
// keys, no anchors or aliases, at most MaxBytes bytes and MaxDepth levels. Nothing is
// decoded into types here; a scalar keeps its text.
package doctree
