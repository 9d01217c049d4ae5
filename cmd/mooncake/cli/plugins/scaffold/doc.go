// Package scaffold writes a plugin to start from: a Go module of its own that builds,
// passes the conformance suite of its kind and runs in the demo as it is.
//
// The templates lie in templates/common and templates/<kind>, at the paths that the files
// get; a name that begins with "dot-" begins with a dot in the module, and the folder
// "main" below cmd is named like the program.
package scaffold
