package drive

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// worker does jobs.
type worker interface {
	do(ctx context.Context, j Job) (Answer, error)
}

// serve does the jobs of a stream, until it ends.
func serve(ctx context.Context, w worker, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var j Job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return fmt.Errorf("a job that is none: %w", err)
		}
		var answer any
		a, err := w.do(ctx, j)
		if answer = a; err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := enc.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func unknown(j Job) error { return fmt.Errorf("there is no job %q here", j.Do) }
