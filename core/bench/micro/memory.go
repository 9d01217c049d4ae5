package micro

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// Memory measures what the core does to the bytes of a page, next to a copy of it. Cold
// operations walk over memory that exceeds the caches, the others use one page again and
// again.
func Memory() Suite {
	return Suite{Name: "memory", run: func(ctx context.Context, m *meter) error {
		for _, size := range []int{64 << 10, 1 << 20} {
			if err := m.memory(ctx, size); err != nil {
				return err
			}
		}
		return m.cold(ctx, 1<<20)
	}}
}

func (m *meter) memory(ctx context.Context, size int) error {
	src, dst := make([]byte, size), make([]byte, size)
	content.Fill(src, 1, 1)
	label := func(op string) string { return fmt.Sprintf("%s %s", op, sizeName(size)) }
	base, err := m.measure(ctx, label("memcpy"), size, nil, repeat(func() { copy(dst, src) }))
	if err != nil {
		return err
	}
	var sum uint32
	wrong := 0
	for _, op := range []struct {
		name string
		do   func()
	}{
		{"memset", func() { clear(dst) }},
		{"crc32c", func() { sum ^= crc32c.Sum(src) }},
		{"memcpy and crc32c", func() { sum ^= crc32c.Copy(dst, src) }},
		{"content fill", func() { content.Fill(dst, 2, 1) }},
		{"content verify", func() {
			if content.Verify(src, 1, 1) >= 0 {
				wrong++
			}
		}},
	} {
		if _, err := m.measure(ctx, label(op.name), size, &base, repeat(op.do)); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("content verify found %d wrong pages in memory without a writer (crc %08x): this machine's memory is faulty", wrong, sum)
	}
	return nil
}

// cold copies pages that are in no cache, and computes their checksums.
func (m *meter) cold(ctx context.Context, size int) error {
	pages := m.ColdBytes / size
	area := make([]byte, pages*size)
	for i := range pages {
		content.Fill(area[i*size:(i+1)*size], uint64(i), 1)
	}
	at := 0
	next := func() []byte {
		p := area[at*size : (at+1)*size]
		at = (at + 1) % pages
		return p
	}
	half := pages / 2
	to := func() []byte { return area[(at+half)%pages*size:][:size] }
	base, err := m.measure(ctx, "memcpy cold "+sizeName(size), size, nil, repeat(func() { copy(to(), next()) }))
	if err != nil {
		return err
	}
	var sum uint32
	if _, err = m.measure(ctx, "memcpy and crc32c cold "+sizeName(size), size, &base, repeat(func() { sum ^= crc32c.Copy(to(), next()) })); err != nil {
		return err
	}
	_, err = m.measure(ctx, "crc32c cold "+sizeName(size), size, &base, repeat(func() { sum ^= crc32c.Sum(next()) }))
	return err
}

func repeat(do func()) func(int) error {
	return func(n int) error {
		for range n {
			do()
		}
		return nil
	}
}

func sizeName(size int) string {
	switch {
	case size >= 1<<20 && size%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", size>>20)
	case size >= 1<<10 && size%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", size>>10)
	default:
		return fmt.Sprintf("%d B", size)
	}
}
