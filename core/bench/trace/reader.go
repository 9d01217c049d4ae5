// Package trace reads and writes request traces in the format published with the
// Mooncake FAST'25 paper: one JSON object a line with `timestamp` (ms from the start),
// `input_length` and `output_length` (tokens) and `hash_ids` (one per block of 512
// tokens of the prompt).
package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// The bounds of a trace. They are far above every published trace and keep a wrong file
// from taking the memory of the machine.
const (
	// MaxLine is the longest accepted line in bytes, without the line feed.
	MaxLine = 1 << 20
	// MaxBlocks is the largest number of blocks of one request.
	MaxBlocks = 1 << 16
	// MaxTokens is the largest input or output length of one request.
	MaxTokens = 1 << 30
	// MaxTimestamp is the latest arrival, one year.
	MaxTimestamp = 365 * 24 * time.Hour
)

// Reader reads a trace as a stream. It is for one goroutine.
type Reader struct {
	in   *bufio.Reader
	line int
	seq  int
	err  error
}

// NewReader makes a Reader. It buffers at most MaxLine bytes.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next request, io.EOF after the last, a *LineError for a line that is
// refused, or the error of the underlying reader with the line it happened at. Empty
// lines and unknown keys are skipped. After an error Next returns that error forever.
func (r *Reader) Next() (Request, error) {
	if r.err != nil {
		return Request{}, r.err
	}
	req, err := r.next()
	if err != nil {
		r.err = err
		return Request{}, err
	}
	req.Seq = r.seq
	r.seq++
	return req, nil
}

func (r *Reader) next() (Request, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return Request{}, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		req, err := parse(line)
		if err != nil {
			return Request{}, &LineError{Line: r.line, Err: err}
		}
		return req, nil
	}
}

// readLine returns one line. The result is valid until the next call.
func (r *Reader) readLine() ([]byte, error) {
	r.line++
	var whole []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(whole)+len(part) > MaxLine+1 {
			return nil, &LineError{Line: r.line, Err: fmt.Errorf("%w: more than %d bytes", ErrLineTooLong, MaxLine)}
		}
		switch {
		case err == nil && whole == nil:
			return part, nil
		case err == nil:
			return append(whole, part...), nil
		case errors.Is(err, bufio.ErrBufferFull):
			whole = append(whole, part...)
		case errors.Is(err, io.EOF) && len(whole)+len(part) > 0:
			return append(whole, part...), nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("trace: read line %d: %w", r.line, err)
		}
	}
}

type record struct {
	Timestamp    *int64    `json:"timestamp"`
	InputLength  int64     `json:"input_length"`
	OutputLength int64     `json:"output_length"`
	HashIDs      []blockID `json:"hash_ids"`
}

// blockID refuses null, which encoding/json would read as 0.
type blockID uint64

// UnmarshalJSON implements json.Unmarshaler.
func (b *blockID) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: hash_ids holds %.32s, want whole numbers from 0 to 2^64-1", ErrRange, text)
	}
	*b = blockID(v)
	return nil
}

func parse(line []byte) (Request, error) {
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		if errors.Is(err, ErrRange) {
			return Request{}, err
		}
		return Request{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	switch {
	case rec.Timestamp == nil:
		return Request{}, fmt.Errorf("%w: timestamp (milliseconds from the start)", ErrMissing)
	case rec.HashIDs == nil:
		return Request{}, fmt.Errorf("%w: hash_ids (list of block ids)", ErrMissing)
	case *rec.Timestamp < 0 || *rec.Timestamp > MaxTimestamp.Milliseconds():
		return Request{}, fmt.Errorf("%w: timestamp is %d ms, want 0 to %d", ErrRange, *rec.Timestamp, MaxTimestamp.Milliseconds())
	case rec.InputLength < 0 || rec.InputLength > MaxTokens:
		return Request{}, fmt.Errorf("%w: input_length is %d tokens, want 0 to %d", ErrRange, rec.InputLength, MaxTokens)
	case rec.OutputLength < 0 || rec.OutputLength > MaxTokens:
		return Request{}, fmt.Errorf("%w: output_length is %d tokens, want 0 to %d", ErrRange, rec.OutputLength, MaxTokens)
	case len(rec.HashIDs) > MaxBlocks:
		return Request{}, fmt.Errorf("%w: hash_ids has %d entries, want at most %d", ErrRange, len(rec.HashIDs), MaxBlocks)
	}
	req := Request{
		Timestamp:    time.Duration(*rec.Timestamp) * time.Millisecond,
		Session:      NoSession,
		InputTokens:  int(rec.InputLength),
		OutputTokens: int(rec.OutputLength),
		Blocks:       make([]uint64, len(rec.HashIDs)),
	}
	for i, id := range rec.HashIDs {
		req.Blocks[i] = uint64(id)
	}
	return req, nil
}
