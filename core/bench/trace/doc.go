// Package trace reads and writes request traces in the format published with the
// Mooncake FAST'25 paper: one JSON object a line with `timestamp` (ms from the start),
// `input_length` and `output_length` (tokens) and `hash_ids` (one per block of 512
// tokens of the prompt).
package trace
