package trace

import (
	"encoding/json"
	"fmt"
	"io"
)

// Writer writes requests in the format that Reader reads. The session is not part of the
// format and is lost. It is for one goroutine.
type Writer struct{ enc *json.Encoder }

// NewWriter makes a Writer. It does not buffer.
func NewWriter(w io.Writer) *Writer { return &Writer{enc: json.NewEncoder(w)} }

// Write appends one line.
func (w *Writer) Write(r Request) error {
	ids := r.Blocks
	if ids == nil {
		ids = []uint64{}
	}
	line := struct {
		Timestamp    int64    `json:"timestamp"`
		InputLength  int      `json:"input_length"`
		OutputLength int      `json:"output_length"`
		HashIDs      []uint64 `json:"hash_ids"`
	}{r.Timestamp.Milliseconds(), r.InputTokens, r.OutputTokens, ids}
	if err := w.enc.Encode(line); err != nil {
		return fmt.Errorf("trace: write request %d: %w", r.Seq, err)
	}
	return nil
}
