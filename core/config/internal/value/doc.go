// Package value reads and prints the scalar values of a configuration: durations, sizes,
// ratios, numbers and booleans, in the spellings that the reference implementation's
// users have in their scripts as well as Go's own.
//
// Every function is pure. Errors state what is allowed and never repeat the value, so
// that the caller decides whether it may be shown.
package value
