package zmtp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A log keeps the newest messages within its bounds, and every reader gets what it keeps, in
// order, and the number of those that it lost.
func TestLogAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, bytes := rapid.IntRange(1, 50).Draw(t, "messages"), rapid.IntRange(1, 300).Draw(t, "bytes")
		l := newLog(most, bytes)
		var all [][]byte
		size := func(from int) (n int) {
			for _, m := range all[from:] {
				n += len(m)
			}
			return n
		}
		first := 0 // the oldest that is kept
		at := []uint64{0, 0, 0}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					m := []byte(fmt.Sprint(len(all)) + strings.Repeat("x", rapid.IntRange(0, 60).Draw(t, "size")))
					all = append(all, m)
					l.add(m)
					for first < len(all)-1 && (len(all)-first > most || size(first) > bytes) {
						first++
					}
				}
			},
			"read": func(t *rapid.T) {
				i := rapid.IntRange(0, len(at)-1).Draw(t, "reader")
				r := l.read(at[i], nil)
				missed := max(first-int(at[i]), 0)
				require.Equal(t, uint64(missed), r.missed)
				from := int(at[i]) + missed
				to := min(from+readBatch, len(all))
				require.Equal(t, uint64(to), r.next)
				require.Equal(t, len(r.messages), to-from)
				for j, m := range r.messages {
					require.Equal(t, string(all[from+j]), string(m))
				}
				require.Equal(t, len(r.messages) == 0, r.wait != nil)
				at[i] = r.next
			},
			"": func(t *rapid.T) {
				require.Equal(t, uint64(len(all)), l.end())
				require.Equal(t, size(first), l.bytes)
				require.LessOrEqual(t, len(l.ring), most)
				kept := 0
				for _, m := range l.ring {
					if m != nil {
						kept++
					}
				}
				require.Equal(t, len(all)-first, kept, "what is forgotten is let go")
			},
		})
	})
}

func TestLogWakesItsReaders(t *testing.T) {
	l := newLog(10, 100)
	a, b := l.read(0, nil), l.read(0, nil)
	l.add([]byte("x"))
	<-a.wait
	<-b.wait
	r := l.read(0, nil)
	require.Len(t, r.messages, 1)
	end := l.read(r.next, nil)
	l.close()
	l.close()
	<-end.wait
	require.True(t, l.read(r.next, nil).done)
	l.add([]byte("y"))
	require.True(t, l.read(r.next, nil).done, "nothing comes after the end")
	require.Len(t, l.read(0, nil).messages, 1, "what was there can still be read")
}
