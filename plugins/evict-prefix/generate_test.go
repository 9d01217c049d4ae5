package prefix

import (
	"math/rand/v2"
)

// The generators below make the workloads of the tests, the same ones in every run.

// conversations makes chats: each has a fresh prompt of some pages and a number of turns,
// and each turn sends the whole chat so far and some new pages. The last page of a turn is
// not full and is another one in the next turn. Chats wait between turns, some of them
// long, and most end after a turn or two.
func conversations(seed uint64, requests int) trace {
	type chat struct {
		pages []uint32
		turns int
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	due := make([][]chat, requests+1)
	next := uint32(1) // page 0 is the system prompt of all
	t := make(trace, 0, requests)
	for now := 0; len(t) < requests; now++ {
		var turns []chat
		if now < len(due) {
			turns = due[now]
		}
		c := chat{pages: []uint32{0}, turns: 1}
		for rng.IntN(5) < 2 {
			c.turns += 1 + rng.IntN(4)
		}
		for _, c := range append(turns, c) {
			for n := 1 + rng.IntN(3) + int(rng.ExpFloat64()*10); n > 0; n-- {
				c.pages = append(c.pages, next)
				next++
			}
			t = append(t, append(append([]uint32{}, c.pages...), next))
			next++
			if c.turns--; c.turns > 0 {
				if at := now + 20 + int(rng.ExpFloat64()*150); at < len(due) {
					due[at] = append(due[at], c)
				}
			}
		}
	}
	return t[:requests]
}

// documents makes questions about long documents, some of which are asked about often for
// a while, mixed with short prompts that no client sends again.
func documents(seed uint64, requests int) trace {
	rng := rand.New(rand.NewPCG(seed, 2))
	next := uint32(1 << 24)
	t := make(trace, 0, requests)
	for i := range requests {
		if rng.IntN(4) == 0 {
			t = append(t, []uint32{next})
			next++
			continue
		}
		doc := uint32(i/8) + uint32(rng.ExpFloat64()*40)
		pages := make([]uint32, 0, 80)
		for n := range 10 + mix(uint64(doc))%60 {
			pages = append(pages, doc<<8|uint32(n))
		}
		t = append(t, append(pages, next))
		next++
	}
	return t
}

// zipf makes requests of one page each, some pages far more often than others. Every
// `shift` requests, half of the pages change places.
func zipf(seed uint64, requests, pages, shift int) trace {
	rng := rand.New(rand.NewPCG(seed, 3))
	z := rand.NewZipf(rng, 1.1, 4, uint64(pages-1))
	name := rng.Perm(pages)
	t := make(trace, requests)
	for i := range t {
		if shift > 0 && i%shift == shift-1 {
			for range pages / 4 {
				a, b := rng.IntN(pages), rng.IntN(pages)
				name[a], name[b] = name[b], name[a]
			}
		}
		t[i] = []uint32{uint32(name[z.Uint64()])}
	}
	return t
}

// drift makes requests whose pages were mostly seen a short while ago, at a distance that
// decreases like that of a random walk: what recency is best at.
func drift(seed uint64, requests, reach int) trace {
	rng := rand.New(rand.NewPCG(seed, 4))
	t := make(trace, requests)
	for i := range t {
		t[i] = []uint32{uint32(max(0, i/4-int(rng.ExpFloat64()*float64(reach))))}
	}
	return t
}

// scan makes pages that are read once each.
func scan(first uint32, requests, length int) trace {
	t := make(trace, requests)
	for i := range t {
		for range length {
			t[i] = append(t[i], first)
			first++
		}
	}
	return t
}

// loop reads the same pages in the same order over and over, `length` to a request.
func loop(first uint32, requests, pages, length int) trace {
	t := make(trace, requests)
	at := 0
	for i := range t {
		for range length {
			t[i] = append(t[i], first+uint32(at))
			at = (at + 1) % pages
		}
	}
	return t
}

// join plays traces one after the other.
func join(ts ...trace) (all trace) {
	for _, t := range ts {
		all = append(all, t...)
	}
	return all
}

// mixed plays traces at once, taking turns at random in proportion to their lengths.
func mixed(seed uint64, ts ...trace) (all trace) {
	rng := rand.New(rand.NewPCG(seed, 5))
	left := 0
	for _, t := range ts {
		left += len(t)
	}
	ts = append([]trace{}, ts...)
	for ; left > 0; left-- {
		n := rng.IntN(left)
		for i := range ts {
			if n < len(ts[i]) {
				all, ts[i] = append(all, ts[i][0]), ts[i][1:]
				break
			}
			n -= len(ts[i])
		}
	}
	return all
}
