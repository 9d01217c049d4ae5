// Package archtest keeps the import rules of the house true. The rules are data in
// rules.go; the test reads the import graph from the go command, so that build tags and
// both modules count. Test files are exempt: a test may reach for a real neighbour.
package archtest
