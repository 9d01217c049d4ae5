package tiers

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// bug is a bug and how it bends a tier.
type bug struct {
	kitscore.Bug
	bend func(*bent)
}

func seeded(name, wrong string, bend func(*bent), finds ...string) bug {
	return bug{kitscore.Bug{Name: name, Wrong: wrong, Finds: finds}, bend}
}

// killed is a bug that shows only when a process is killed.
func killed(b bug) bug {
	b.Killed = true
	return b
}

// bugs lists the bugs.
func bugs() []bug {
	return slices.Concat(contentBugs(), recordBugs(), flowBugs(), crashBugs())
}

const page = 4096

// contentBugs return wrong bytes.
func contentBugs() []bug {
	return []bug{
		seeded("zeros", "A value of zeros only is read with its last byte wrong.", func(b *bent) {
			b.reads(func(_ tier.Op, p []byte) {
				if len(bytes.Trim(p, "\x00")) == 0 {
					p[len(p)-1] = 1
				}
			})
		}, "content of each kind"),
		seeded("text", "A value of text loses its last eight bytes, as with a decompressor that forgets its tail.", func(b *bent) {
			b.reads(func(_ tier.Op, p []byte) {
				ascii := !bytes.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' })
				if ascii && len(p) > 8 {
					clear(p[len(p)-8:])
				}
			})
		}, "content of each kind"),
		seeded("repeated-pages", "Of a value of repeated pages the last page is another, as with pages that are kept once.", func(b *bent) {
			b.reads(func(_ tier.Op, p []byte) {
				if len(p) > 3*page && p[0] != p[1] && bytes.Equal(p[:page], p[page:2*page]) {
					p[len(p)-page]++
				}
			})
		}, "content of each kind"),
		seeded("random-bytes", "A value of more than 64 KiB that cannot be compressed has a wrong byte at 64 KiB.", func(b *bent) {
			b.reads(func(_ tier.Op, p []byte) {
				if len(p) > 1<<16 && !bytes.Equal(p[:64], p[64:128]) && p[0] > 127 {
					p[1<<16]++
				}
			})
		}, "content of each kind", "content at many sizes"),
		seeded("range-at-4096", "A Read from byte 4096 on begins one byte before.", func(b *bent) {
			b.submit = func(o *tier.Op) {
				if o.Kind == tier.Read && o.Offset == page {
					o.Offset--
				}
			}
		}, "ranges"),
		seeded("checksum-of-writes", "The checksum of a Write is not looked at.", func(b *bent) {
			b.submit = func(o *tier.Op) { o.Record.Summed = o.Record.Summed && o.Kind == tier.Read }
		}, "a wrong checksum"),
		seeded("checksum-of-reads", "Damaged bytes are read, and said to be verified.", func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if o.Kind == tier.Read && errs.Is(c.Err, errs.ChecksumMismatch) {
					*c = tier.Completion{ID: c.ID, Status: tier.OK, Verified: true}
				}
				return false
			}
		}, "damaged bytes"),
		seeded("part-verified", "A Read of a part is said to be verified.", func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				c.Verified = c.Status == tier.OK && o.Kind == tier.Read && o.Record.Summed
				return false
			}
		}, "verified", "ranges"),
		seeded("late-touch", "After its completion the buffer of a Read is written to again.", func(b *bent) {
			var last []byte
			b.reads(func(_ tier.Op, p []byte) { last = p })
			b.stats = func(*tier.Stats) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(last) > 1000 {
					last[0]++
				}
				last = nil
			}
		}, "a completion is terminal"),
	}
}

// recordBugs lose, mix up or miscount records.
func recordBugs() []bug {
	return []bug{
		seeded("scan-misses-one", "The last record of a full page of 256 is missing in a Scan.", func(b *bent) {
			b.scan = func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
				n, next, err := b.Tier.Scan(context.Background(), from, dst)
				if n == 256 && len(dst) == 256 {
					n--
				}
				return n, next, err
			}
		}, "batches"),
		seeded("forget-last-of-256", "The last record of a batch of 256 is not forgotten.", func(b *bent) {
			b.forget = func(at []tier.Locator) []tier.Locator {
				if len(at) == 256 {
					return at[:255]
				}
				return at
			}
		}, "batches"),
		seeded("forget-leaves-the-file", "A Forget hides a record until the next start, and leaves it on the disk.", func(b *bent) {
			gone := map[tier.Locator]bool{}
			b.forget = func(at []tier.Locator) []tier.Locator {
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, l := range at {
					gone[l] = true
				}
				return nil
			}
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if o.Kind == tier.Read && gone[o.At] {
					*c = tier.Completion{ID: c.ID, Status: tier.Failed, Err: errs.New(errs.ObjectNotFound, "", "it was forgotten")}
				}
				return false
			}
		}, "records survive", "forget", "a full volume"),
		seeded("any-version", "A Read finds another version of its key at its locator.", func(b *bent) {
			written := map[tier.Locator]tier.Version{}
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if o.Kind == tier.Write && c.Status == tier.OK {
					written[c.At] = o.Record.Version
				}
				return false
			}
			b.submit = func(o *tier.Op) {
				if v, known := written[o.At]; known && o.Kind == tier.Read {
					o.Record.Version = v
				}
			}
		}, "another record", "model"),
		seeded("capacity-doubled", "The capacity that the tier states is twice what it keeps.", func(b *bent) {
			b.volume = func(v *tier.Volume) { v.Capacity *= 2 }
			b.stats = func(st *tier.Stats) { st.Capacity *= 2 }
		}, "a full volume"),
		seeded("used-without-keys", "Stats counts the bytes of values, and not what keys take.", func(b *bent) {
			b.stats = func(st *tier.Stats) { st.Used -= min(st.Used, st.Records) }
		}, "stats", "model"),
		seeded("generation-stays", "Wipe does not raise the generation.", func(b *bent) {
			b.volume = func(v *tier.Volume) { v.Generation = 0 }
		}, "wipe"),
		seeded("long-keys", "Of a key, 1024 bytes count.", func(b *bent) {
			b.submit = func(o *tier.Op) { o.Record.Key = o.Record.Key[:min(len(o.Record.Key), 1024)] }
		}, "keys"),
	}
}

// flowBugs break what Submit, Reap, Start and Stop promise.
func flowBugs() []bug {
	return []bug{
		seeded("accepted-count", "Submit accepts all of a batch of more than 100, and says that it has left the last.", func(b *bent) {
			b.accepted = func(n int) int {
				if n > 100 {
					return n - 1
				}
				return n
			}
		}, "exactly one completion", "batches"),
		seeded("one-of-300", "One completion of 300 is lost.", func(b *bent) {
			n := 0
			b.complete = func(tier.Op, *tier.Completion) bool { n++; return n%300 == 0 }
		}, "exactly one completion"),
		seeded("twice-of-300", "Each 300th operation completes with the ID of the one before.", func(b *bent) {
			n, last := 0, uint64(0)
			b.complete = func(_ tier.Op, c *tier.Completion) bool {
				id := c.ID
				if n++; n%300 == 0 {
					c.ID = last
				}
				last = id
				return false
			}
		}, "exactly one completion"),
		seeded("no-deadlines", "The deadline of an operation is ignored.", func(b *bent) {
			b.submit = func(o *tier.Op) { o.Deadline = time.Time{} }
		}, "a deadline in the past"),
		seeded("lock-is-left", "Stop leaves the volume locked.", func(b *bent) {
			lock := filepath.Join(b.path, "mutant.lock")
			b.start = func(context.Context) error {
				f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return errs.New(errs.FileOpenFail, b.path, "the volume is locked: %w", err)
				}
				return f.Close()
			}
		}, "records survive", "wipe"),
		seeded("goroutine-per-submit", "Each Submit leaves a goroutine behind.", func(b *bent) {
			b.submit = func(*tier.Op) { go func() { select {} }() }
		}, "leaks of calls"),
		seeded("descriptor-per-read", "Each Read leaves a descriptor open.", func(b *bent) {
			var open []*os.File // Else the garbage collector closes them.
			b.reads(func(tier.Op, []byte) {
				if f, err := os.Open(os.DevNull); err == nil {
					open = append(open, f)
				}
			})
		}, "leaks of calls"),
	}
}

// crashBugs lose or tear records when the process is killed.
func crashBugs() []bug {
	return []bug{
		killed(seeded("visible-before-durable", "What was written and flushed since the start is lost when the process is killed.", func(b *bent) {
			b.journal("written", func(o tier.Op, c tier.Completion) bool { return o.Kind == tier.Write && c.Status == tier.OK })
		}, "a killed process", "records after a killed process")),
		killed(seeded("torn-after-kill", "A Write that was in flight when the process was killed leaves its first half, and a Scan finds it.", torn, "records after a killed process")),
	}
}

// journal notes the locators of completions in a file, which a Stop removes. A start that finds the file forgets its records.
func (b *bent) journal(name string, of func(tier.Op, tier.Completion) bool) {
	path := filepath.Join(b.path, name)
	b.complete = func(o tier.Op, c *tier.Completion) bool {
		if of(o, *c) {
			if f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
				_, err = f.Write(encode(c.At))
				_ = errors.Join(err, f.Close())
			}
		}
		return false
	}
	b.begun = func(ctx context.Context) {
		text, _ := os.ReadFile(path)
		for ; len(text) >= len(encode(tier.Locator{})); text = text[len(encode(tier.Locator{})):] {
			_ = b.Tier.Forget(ctx, []tier.Locator{decode(text)})
		}
		_ = os.Remove(path)
	}
	b.stop = func() { _ = os.Remove(path) }
}
