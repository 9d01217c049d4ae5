// Package archtest enforces the import rules of the project. The rules are data in rules.go. The
// test reads the import graph from the go command, so that it respects build tags and covers all
// modules. Test files are exempt, so that a test may use a real neighbour.
package archtest
