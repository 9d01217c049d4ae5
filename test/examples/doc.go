// Package examples compares the plugins under examples/ with their documentation. The tests build
// them as a user does, find them in a folder, run them under a real host, and run the conformance
// suite and the demo with them.
package examples
