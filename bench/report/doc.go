// Package report turns rounds of figures into rows: medians of this project and of a peer side
// by side, and how many times better the first one is.
package report
