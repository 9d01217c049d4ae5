// Package examples holds the plugins under examples/ to what their documentation says:
// they are built as a user builds them, found in a folder, run under a real host, and put
// through the conformance suite and the demo.
package examples
