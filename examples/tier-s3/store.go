package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// store keeps records in a bucket, each as an object of its own:
//
//	PREFIX/volume                          the volume, as JSON
//	PREFIX/ID-GENERATION-START-NUMBER      a record
//
// All are in one folder, and it is never empty: servers on a file system remove a folder when its last object is deleted, also
// while another request writes there, which fails.
//
// The locator of a record is the number of the start that wrote it and the number of the record in that
// start, so that no name is used twice. An object exists whole or not at all, and is durable when the
// server has answered.
//
// A start lists the objects. Their heads, which have the keys, are read when a Scan or a Read needs them.
type store struct {
	bucket   *bucket
	prefix   string
	capacity uint64
	requests int
	id       [16]byte // of the volume

	volumes sync.Mutex // held by Wipe

	mu      sync.Mutex
	volume  volume
	etag    string // of the object of the volume
	unsure  bool   // it is not known whether a Wipe took effect
	last    uint64 // the number of the last record of this start
	records map[tier.Locator]*kept
	order   []tier.Locator // of the last scan, the newest first
	used    uint64         // by records
	writing uint64         // by records that are being written
	full    uint64         // what the server turned out to have space for, 0 if it never said
	litter
}

// volume is the object of the volume.
type volume struct {
	ID         [16]byte
	Generation uint64
	Starts     uint64
}

// kept is a record that can be read.
type kept struct {
	tier.Record
	known bool // else the head was not read yet, and Record is empty
	space uint64
	etag  string
}

// openStore counts the start, and lists the records.
func openStore(ctx context.Context, c *Config) (*store, error) {
	b, err := newBucket(c)
	if err != nil {
		return nil, err
	}
	s := &store{bucket: b, prefix: c.Prefix, capacity: c.CapacityBytes, requests: c.Requests, records: map[tier.Locator]*kept{}, litter: newLitter()}
	s.sweepSoon()
	if err = s.begin(ctx); err == nil {
		err = s.find(ctx)
	}
	if err != nil {
		b.close()
		return nil, failed(ctx, errs.FileOpenFail, "start", err)
	}
	return s, nil
}

func (s *store) volumeName() string { return s.prefix + "/volume" }

// load reads the object of the volume.
func (s *store) load(ctx context.Context) (v volume, etag string, err error) {
	text, etag, err := s.bucket.getAll(ctx, s.volumeName())
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	return v, etag, err
}

// begin counts the start in the object of the volume, which it makes if there is none.
func (s *store) begin(ctx context.Context) error {
	v, etag, err := s.load(ctx)
	fresh := err != nil && missing(err)
	if fresh {
		_, err = rand.Read(v.ID[:])
	}
	if err != nil {
		return err
	}
	v.Starts++
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if fresh {
		etag, err = s.bucket.create(ctx, s.volumeName(), text)
	} else {
		etag, err = s.bucket.replace(ctx, s.volumeName(), etag, text)
	}
	if err != nil && missing(err) {
		return fmt.Errorf("another process opens %s at the same moment: %w", s.prefix, err)
	}
	s.id, s.volume, s.etag = v.ID, v, etag
	return err
}

// find enters the records of earlier starts.
func (s *store) find(ctx context.Context) error {
	for o := range s.bucket.list(ctx, s.of(s.volume.Generation)) {
		if o.Err != nil {
			return o.Err
		}
		if at, _, ok := s.parse(o.Key); ok && o.Size > headSize {
			s.records[at] = &kept{space: uint64(o.Size), etag: o.ETag}
			s.used += uint64(o.Size)
		}
	}
	return nil
}

// all is what the names of records begin with, and of those of one generation.
func (s *store) all() string { return fmt.Sprintf("%s/%x-", s.prefix, s.id) }

func (s *store) of(generation uint64) string { return s.all() + fmt.Sprintf("%016x-", generation) }

// name is the object of a record.
func (s *store) name(generation uint64, at tier.Locator) string {
	return s.of(generation) + fmt.Sprintf("%016x-%016x", at[0], at[1])
}

// parse reads the name of an object.
func (s *store) parse(name string) (at tier.Locator, generation uint64, ok bool) {
	base, ok := strings.CutPrefix(name, s.all())
	_, err := fmt.Sscanf(base, "%016x-%016x-%016x", &generation, &at[0], &at[1])
	return at, generation, ok && err == nil && name == s.name(generation, at)
}

// current returns the volume.
func (s *store) current() volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volume
}

// keep writes a record. generation is that at which it was submitted.
func (s *store) keep(ctx context.Context, r tier.Record, value [][]byte, generation uint64) (tier.Locator, error) {
	const op = "tier/s3: write"
	if r.Summed && checksum(value...) != r.Sum {
		return tier.Locator{}, permanent(errs.ChecksumMismatch, op, "the bytes are not those of the checksum")
	}
	s.mu.Lock()
	if s.unsure {
		s.mu.Unlock()
		return tier.Locator{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "the server has not answered a Wipe"), "wipe again, or start again")
	}
	if free := s.space() - min(s.space(), s.used+s.writing); space(r) > free {
		s.mu.Unlock()
		return tier.Locator{}, permanent(errs.NoAvailableHandle, op, "a record of %d bytes, and %d of %d are free", space(r), free, s.space())
	}
	s.writing += space(r)
	s.last++
	at := tier.Locator{s.volume.Starts, s.last}
	name := s.name(generation, at)
	s.mu.Unlock()

	etag, err := s.bucket.keep(ctx, name, append([][]byte{encodeHead(r)}, value...)...)
	if err != nil {
		if maybe(err) {
			s.block(name)
		}
		err = failed(ctx, errs.FileWriteFail, "write", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing -= space(r)
	if errs.Is(err, errs.NoAvailableHandle) {
		s.full = max(s.used, 1)
	}
	if err == nil && s.volume.Generation != generation {
		err = errs.New(errs.UnavailableInCurrentStatus, op, "the volume was wiped")
	}
	if err != nil {
		return tier.Locator{}, err
	}
	s.records[at] = &kept{Record: r, known: true, space: space(r), etag: etag}
	s.used += space(r)
	return at, nil
}

// space is what the records may take together. The caller holds mu.
func (s *store) space() uint64 {
	if s.full > 0 {
		return min(s.capacity, s.full)
	}
	return s.capacity
}

// read copies a part of a value. verified reports that it was all of it, and its checksum is right.
func (s *store) read(ctx context.Context, want tier.Record, at tier.Locator, offset uint64, into [][]byte) (verified bool, err error) {
	const op = "tier/s3: read"
	r, name, err := s.lookup(ctx, at)
	if err != nil {
		return false, err
	}
	if !r.known || !same(r.Record, want) {
		return false, permanent(errs.ObjectNotFound, op, "this record is not at %v", at)
	}
	if err := s.bucket.get(ctx, name, r.etag, headSize+uint64(len(r.Key))+offset, into...); err != nil {
		return false, s.unread(ctx, at, err)
	}
	var n uint64
	for _, p := range into {
		n += uint64(len(p))
	}
	if !r.Summed || n != r.Size {
		return false, nil
	}
	if checksum(into...) != r.Sum {
		return false, permanent(errs.ChecksumMismatch, op, "the bytes of %s are damaged", name)
	}
	return true, nil
}

// lookup returns what is at a locator, with its head. known is false if there is nothing.
func (s *store) lookup(ctx context.Context, at tier.Locator) (r kept, name string, err error) {
	s.mu.Lock()
	k := s.records[at]
	if k != nil {
		r, name = *k, s.name(s.volume.Generation, at)
	}
	s.mu.Unlock()
	if k == nil || r.known {
		return r, name, nil
	}
	head := make([]byte, min(headSize+tier.MaxKey, r.space))
	if err := s.bucket.get(ctx, name, r.etag, 0, head); err != nil {
		return kept{}, name, s.unread(ctx, at, err)
	}
	r.Record, err = decodeHead(head, r.space)
	if r.known = err == nil; !r.known {
		s.drop(at)
		s.block(name)
		return kept{}, name, permanent(errs.ChecksumMismatch, "tier/s3: read", "%s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.Record, k.known = r.Record, true
	return r, name, nil
}

// unread makes the error of a record whose object could not be read.
func (s *store) unread(ctx context.Context, at tier.Locator, err error) error {
	if missing(err) {
		s.drop(at)
	}
	s.mu.Lock()
	there := s.records[at] != nil
	s.mu.Unlock()
	if !there && ctx.Err() == nil {
		return permanent(errs.ObjectNotFound, "tier/s3: read", "the record at %v is gone: %w", at, err)
	}
	return failed(ctx, errs.FileReadFail, "read", err)
}

// drop ends a record whose object is gone, or no record.
func (s *store) drop(at tier.Locator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.records[at]; k != nil {
		delete(s.records, at)
		s.used -= k.space
	}
}

// forget ends records.
func (s *store) forget(ctx context.Context, at []tier.Locator) error {
	s.mu.Lock()
	byName := map[string]tier.Locator{}
	names := make([]string, 0, len(at))
	for _, l := range at {
		name := s.name(s.volume.Generation, l)
		if _, twice := byName[name]; s.records[l] != nil && !twice {
			byName[name] = l
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	if err := s.bucket.remove(ctx, names, func(name string) { s.drop(byName[name]) }); err != nil {
		return failed(ctx, errs.FileWriteFail, "forget", err)
	}
	return nil
}

// scan stores records that are older than from, the newest first.
func (s *store) scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
	for {
		page := s.page(&from, len(dst))
		if len(page) == 0 {
			return 0, from, nil
		}
		if err := s.heads(ctx, page); err != nil {
			return 0, from, err
		}
		n := 0
		s.mu.Lock()
		for _, at := range page {
			if k := s.records[at]; k != nil && k.known {
				r := k.Record
				r.Key = bytes.Clone(r.Key)
				dst[n] = tier.Found{Record: r, At: at}
				n++
			}
		}
		s.mu.Unlock()
		if n > 0 {
			return n, from, nil
		}
	}
}

// page returns the next n locators of a scan, and moves its cursor.
func (s *store) page(from *tier.Cursor, n int) []tier.Locator {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := 0
	if *from == (tier.Cursor{}) {
		s.order = make([]tier.Locator, 0, len(s.records))
		for at := range s.records {
			s.order = append(s.order, at)
		}
		slices.SortFunc(s.order, newerFirst)
	} else {
		var found bool
		if begin, found = slices.BinarySearchFunc(s.order, tier.Locator{from[0], from[1]}, newerFirst); found {
			begin++
		}
	}
	page := slices.Clone(s.order[begin:min(begin+n, len(s.order))])
	if len(page) > 0 {
		last := page[len(page)-1]
		*from = tier.Cursor{last[0], last[1]}
	}
	return page
}

func newerFirst(a, b tier.Locator) int {
	return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(b[1], a[1]))
}

// heads reads the heads of records that are not known yet.
func (s *store) heads(ctx context.Context, page []tier.Locator) error {
	var mu sync.Mutex
	var bad error
	var wg sync.WaitGroup
	next := make(chan tier.Locator)
	for range min(s.requests, len(page)) {
		wg.Go(func() {
			for at := range next {
				if _, _, err := s.lookup(ctx, at); err != nil && errs.ClassOf(err) != errs.ClassPermanent {
					mu.Lock()
					bad = errors.Join(bad, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, at := range page {
		mu.Lock()
		over := bad != nil
		mu.Unlock()
		if over {
			break
		}
		next <- at
	}
	close(next)
	wg.Wait()
	return bad
}

// flush has nothing to write: what the server has answered is durable. It finds out whether another process opened the
// volume, which must not happen.
func (s *store) flush(ctx context.Context) error {
	v, _, err := s.load(ctx)
	if err == nil && v.Starts != s.current().Starts {
		return s.taken()
	}
	return nil
}

func (s *store) taken() error {
	return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "tier/s3", "another process has opened %s/%s since", s.bucket.name, s.prefix),
		"give each store a prefix of its own")
}

// wipe ends all records. Once the object of the volume has the new generation, no start finds those of an earlier one.
func (s *store) wipe(ctx context.Context) error {
	s.volumes.Lock()
	defer s.volumes.Unlock()
	s.mu.Lock()
	next, etag, unsure := s.volume, s.etag, s.unsure
	s.mu.Unlock()
	next, etag, err := s.raise(ctx, next, etag, unsure)
	if err != nil && missing(err) { // A Wipe that was given up may have taken effect just now.
		next, etag, err = s.raise(ctx, next, etag, true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.unsure = unsure || maybe(err)
		return failed(ctx, errs.FileWriteFail, "wipe", err)
	}
	s.volume, s.etag, s.unsure = next, etag, false
	clear(s.records)
	s.used = 0
	s.sweepSoon()
	return nil
}

// raise adds 1 to the generation in the object of the volume. unsure says that it may not be the one with this ETag.
func (s *store) raise(ctx context.Context, v volume, etag string, unsure bool) (volume, string, error) {
	if unsure {
		now, tag, err := s.load(ctx)
		if err == nil && now.Starts != v.Starts {
			err = s.taken()
		}
		if err != nil {
			return v, etag, err
		}
		v, etag = now, tag
	}
	next := v
	next.Generation++
	text, err := json.Marshal(next)
	if err != nil {
		return v, etag, err
	}
	tag, err := s.bucket.replace(ctx, s.volumeName(), etag, text)
	if err != nil {
		return v, etag, err
	}
	return next, tag, nil
}

// stats counts records and space.
func (s *store) stats() tier.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := tier.Stats{Used: s.used, Records: uint64(len(s.records)), Capacity: s.space()}
	if taken := s.used + s.writing + headSize + tier.MaxKey; st.Capacity > taken {
		st.LargestFree = st.Capacity - taken
	}
	return st
}
