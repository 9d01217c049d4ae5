// Package works is what is measured, one file for each work: it starts this project and its peers,
// has the same jobs done in turn, and compares.
package works
