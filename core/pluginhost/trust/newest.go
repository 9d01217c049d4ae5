package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// newest is the content of Rules.Record.
type newest struct {
	Lock   string `json:"lock"`
	Signed int64  `json:"signed"` // seconds since 1970
}

// At returns when the lock file was signed, as the trusted comment says: minisign and SignLock write it there. It is the zero
// time if the comment does not say.
func (s Signature) At() time.Time {
	for _, field := range strings.Split(s.Comment, "\t") {
		if text, ok := strings.CutPrefix(field, "timestamp:"); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < math.MaxInt32*int64(1000) {
				return time.Unix(n, 0)
			}
		}
	}
	return time.Time{}
}

// seconds are what the record has of a signature, 0 for one without a time.
func (s Signature) seconds() int64 { return max(s.At().Unix(), 0) }

// checkNewest refuses a set that was signed before one that ran here. It fails with FileOpenFail.
func (r Rules) checkNewest(by Signature) error {
	if r.Record == "" {
		return nil
	}
	known, err := readNewest(r.Record)
	switch {
	case err != nil:
		return errs.WithHint(errs.New(errs.FileOpenFail, r.Record, "it says which signed set of plugins ran here last, and cannot be used: %w", err),
			"correct its permissions, or remove it if the set in %s is the right one", r.Lock)
	case by.seconds() >= known.Signed:
		return nil
	}
	when := "at a time that its signature does not say"
	if at := by.At(); !at.IsZero() {
		when = at.UTC().Format(time.RFC3339)
	}
	return errs.WithHint(errs.New(errs.FileOpenFail, r.Lock, "it was signed %s, and a set that was signed %s has run here: an older set was put in its place", when, time.Unix(known.Signed, 0).UTC().Format(time.RFC3339)),
		"put the newer lock file and its signature back; to go back on purpose, sign the older set again, or run as the user of this process: mooncake plugins verify --allow-rollback --plugin-lock %s (the record is %s)", r.Lock, r.Record)
}

func readNewest(path string) (newest, error) {
	var n newest
	text, err := readOwned(path, os.Geteuid(), maxSignatureBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, err
}

// Ran records that a program of the set runs, so that older sets are refused from now on. Without a signature, or a Rules.Record, it
// does nothing. It fails with FileOpenFail where the record cannot be written.
func (j Judge) Ran(ctx context.Context) error {
	if j.by.Key == "" || j.rules.Record == "" {
		return nil
	}
	return j.rules.record(ctx, j.by, false)
}

// AllowRollback records the set of a lock file as the newest, although a newer one has run here. It verifies the signature. It fails as
// ReadSigned, and with FileOpenFail where the record cannot be written.
func AllowRollback(ctx context.Context, r Rules) error {
	_, by, err := ReadSigned(r.Lock, r.Keys)
	if err != nil {
		return err
	}
	if by.Key == "" || r.Record == "" {
		return errs.New(errs.InvalidParams, r.Lock, "no signature is demanded here, or this user has no folder for state: nothing is recorded, and each set may run")
	}
	return r.record(ctx, by, true)
}

// record replaces the record unless it is newer. Concurrent calls, even of several programs, run one after the other.
func (r Rules) record(ctx context.Context, by Signature, back bool) error {
	fail := func(err error) error { return errs.Wrap(errs.FileOpenFail, "record "+r.Record, err) }
	if known, err := readNewest(r.Record); err == nil && known.Signed == by.seconds() {
		return nil // Most starts.
	}
	if err := os.MkdirAll(filepath.Dir(r.Record), 0o755); err != nil {
		return fail(err)
	}
	dir, err := os.Open(filepath.Dir(r.Record))
	if err != nil {
		return fail(err)
	}
	defer dir.Close() // which also releases the lock of the folder
	if err := Reserve(ctx, dir); err != nil {
		return fail(err)
	}
	if known, err := readNewest(r.Record); !back && err == nil && known.Signed >= by.seconds() {
		return nil
	}
	text, err := json.Marshal(newest{Lock: r.Lock, Signed: by.seconds()})
	if err != nil {
		return fail(err)
	}
	if err := Replace(dir, r.Record, bytes.NewReader(line(text)), 0o644); err != nil {
		return fail(err)
	}
	return nil
}
