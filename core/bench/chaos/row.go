package chaos

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// kind is a kind of call.
type kind int

const (
	wholeRead kind = iota
	rangeRead
	put
	kinds
)

// String names the kind as messages do.
func (k kind) String() string {
	return [...]string{"whole read", "read of a range", "put"}[k]
}

// Row is what one fault did, over all of its rounds.
type Row struct {
	Fault string `json:"fault"`
	// Keys is the number of keys that a round had put before its fault.
	Keys int `json:"keys"`
	// Readable is how many of them were there afterwards, whole and right, in the worst round.
	Readable int `json:"readable"`
	// Fresh is the number of keys that were put right before the fault, FreshReadable how many of them
	// were there afterwards, each of all rounds together.
	Fresh         int `json:"fresh"`
	FreshReadable int `json:"fresh_readable"`
	// Wrong is the number of reads, whole or in ranges, of all rounds that succeeded with other
	// bytes than those that were put.
	Wrong int `json:"wrong"`
	// StuckBytes is how much memory, in all rounds together, was in use a minute after all keys were removed.
	StuckBytes uint64 `json:"stuck_bytes"`
	// StrangerTries is how often a client without a certificate connected to a master during the fault, and StrangersServed how
	// often it was answered, of all rounds; with --security mtls.
	StrangerTries   int `json:"stranger_tries,omitempty"`
	StrangersServed int `json:"strangers_served,omitempty"`
	// LongestCallMS is the longest call from the fault on, in milliseconds.
	LongestCallMS int64 `json:"longest_call_ms"`
	// OutageMS is the longest time from the fault on in which no whole read, no read of a range or
	// no put succeeded, in milliseconds.
	OutageMS int64 `json:"outage_ms"`
	// Outages are those of the rounds.
	Outages []int64 `json:"-"`
	Rounds  int     `json:"rounds"`
	// Upgrade is set in rows of upgrades.
	Upgrade *Upgrade `json:"upgrade,omitempty"`
	// Details describe the first wrong bytes, and the first calls of an upgrade that failed twice.
	Details []string `json:"details,omitempty"`
	// Of LongestCallMS and OutageMS, in a row of one round.
	slowest, silent kind
}

// maxDetails bounds Row.Details.
const maxDetails = 16

// add takes a further round into account.
func (r *Row) add(o Row) {
	if r.Rounds == 0 {
		r.Fault, r.Keys, r.Readable = o.Fault, o.Keys, o.Readable
	}
	r.Readable = min(r.Readable, o.Readable)
	r.Fresh += o.Fresh
	r.FreshReadable += o.FreshReadable
	r.Wrong += o.Wrong
	r.StuckBytes += o.StuckBytes
	r.StrangerTries += o.StrangerTries
	r.StrangersServed += o.StrangersServed
	r.LongestCallMS = max(r.LongestCallMS, o.LongestCallMS)
	r.OutageMS = max(r.OutageMS, o.OutageMS)
	r.Outages = append(r.Outages, o.OutageMS)
	r.Rounds += o.Rounds
	r.Upgrade = r.Upgrade.plus(o.Upgrade)
	r.Details = append(r.Details, o.Details...)
	r.Details = r.Details[:min(len(r.Details), maxDetails)]
}

// Upgrade is what an upgrade did to clients, over all rounds of a row.
type Upgrade struct {
	// Replaced is how many processes were replaced by those of the other program.
	Replaced int `json:"replaced"`
	// Repeated is how many calls failed while a process was replaced and were repeated once that was done, Failed how many
	// of them failed again.
	Repeated int `json:"repeated_calls"`
	Failed   int `json:"failed_calls"`
	// OtherVerified is how many pages the clients of the other program read and found right.
	OtherVerified uint64 `json:"other_verified"`
	least         int    // keys that were readable after the worst step of a round
}

// plus adds that of another round; each may be nil.
func (u *Upgrade) plus(o *Upgrade) *Upgrade {
	if u == nil || o == nil {
		return cmp.Or(u, o)
	}
	return &Upgrade{
		Replaced: u.Replaced + o.Replaced, Repeated: u.Repeated + o.Repeated, Failed: u.Failed + o.Failed,
		OtherVerified: u.OtherVerified + o.OtherVerified,
	}
}

// Rows are the rows of a run.
type Rows []Row

// Wrong is the number of wrong reads of all rows.
func (rows Rows) Wrong() (n int) {
	for _, r := range rows {
		n += r.Wrong
	}
	return n
}

// Stuck is how much memory stayed in use without an object, of all rows.
func (rows Rows) Stuck() (n uint64) {
	for _, r := range rows {
		n += r.StuckBytes
	}
	return n
}

// Strangers is how often a client without a certificate was served, of all rows.
func (rows Rows) Strangers() (n int) {
	for _, r := range rows {
		n += r.StrangersServed
	}
	return n
}

// FailedTwice is the number of calls of all upgrades that failed and failed again.
func (rows Rows) FailedTwice() (n int) {
	for _, r := range rows {
		if r.Upgrade != nil {
			n += r.Upgrade.Failed
		}
	}
	return n
}

// Text prints a table for people.
func (rows Rows) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tREADABLE\tWRONG\tLONGEST CALL\tNO SUCCESS FOR\tROUNDS")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d of %d\t%d\t%s\t%s\t%d\n", r.Fault, r.Readable, r.Keys, r.Wrong, seconds(r.LongestCallMS), seconds(r.OutageMS), r.Rounds)
	}
	t.Flush()
	for _, r := range rows {
		if u := r.Upgrade; u != nil {
			fmt.Fprintf(w, "%s: %d processes replaced; %d calls failed once, %d of them also when the process was back; clients of the other release read %d pages\n",
				r.Fault, u.Replaced, u.Repeated, u.Failed, u.OtherVerified)
		}
		for _, d := range r.Details {
			fmt.Fprintf(w, "%s: %s\n", r.Fault, d)
		}
	}
}

func seconds(ms int64) string {
	return fmt.Sprintf("%.2f s", (time.Duration(ms) * time.Millisecond).Seconds())
}
