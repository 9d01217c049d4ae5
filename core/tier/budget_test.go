package tier_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	disk "github.com/mooncake-go/mooncake/core/tier"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// putter puts objects that have 100 KiB on the disk, as one client does.
type putter struct {
	budget *disk.Budget
	tier   tier.Tier
	disk   *disk.Disk
	next   ledger.Put
}

const stored = 100 << 10

// put puts objects of a prompt, and returns which of them may be saved.
func (p *putter) put(names ...string) (admitted []string) {
	for _, n := range names {
		p.next++
		size := stored - p.tier.Space(tier.Record{Key: []byte(n)})
		if p.budget.Admit(p.disk, &ledger.Entry{Version: ledger.Version{Put: p.next}, Object: ledger.Object{Name: n, Size: size, Value: p.next, Writer: model.ClientID{Lo: 1}}}) {
			admitted = append(admitted, n)
		}
	}
	return admitted
}

// other lets so many puts of other prompts pass.
func (p *putter) other() { p.next += 1000 }

// some names n objects.
func some(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// budgeted has a budget of 10 objects an hour, and has used it up.
func budgeted(t *testing.T) *putter {
	r := newRig(t, nil)
	p := &putter{budget: disk.NewBudget(24 * 10 * stored), tier: r.tier, disk: r.disk}
	require.Equal(t, some("first", 10), p.put(some("first", 12)...))
	return p
}

// inBubble runs a test whose time is that of a bubble.
func inBubble(t *testing.T, run func(t *testing.T, p *putter)) {
	synctest.Test(t, func(t *testing.T) { run(t, budgeted(t)) })
}

// TestBudgetIsForWhatComesBack: a disk without budget gets what is put a second time, up to a whole burst that it owes, and
// everything again when half of a burst is there.
func TestBudgetIsForWhatComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, p *putter) {
		p.other()
		require.Empty(t, p.put(some("a", 12)...))
		p.other()
		require.Empty(t, p.put("b"))
		require.Equal(t, some("a", 10), p.put(some("a", 12)...), "it owes a burst then")
		p.other()
		require.Empty(t, p.put("b"))
		time.Sleep(time.Hour)
		require.Empty(t, p.put("c"), "the debt is paid, and no more")
		require.Equal(t, []string{"b"}, p.put("b"))
		time.Sleep(20 * time.Minute)
		p.other()
		require.Empty(t, p.put("d"), "it is not there again yet")
		time.Sleep(20 * time.Minute)
		p.other()
		require.Equal(t, some("d", 6), p.put(some("d", 12)...), "the budget is there again for half of a burst and more")
		time.Sleep(100 * time.Hour)
		p.other()
		require.Equal(t, some("e", 10), p.put(some("e", 12)...), "a burst, however long it was not used")
	})
}

// TestBudgetIsForWholePrompts: what follows a refused object in its prompt is refused too, also where its own disk has budget.
func TestBudgetIsForWholePrompts(t *testing.T) {
	inBubble(t, func(t *testing.T, p *putter) {
		other := newRig(t, nil).disk // It has its budget.
		on := func(d *disk.Disk, name string) bool {
			p.disk = d
			return len(p.put(name)) == 1
		}
		full := p.disk
		p.other()
		require.False(t, on(full, "a0"))
		require.False(t, on(other, "a1"), "it comes after one that is refused")
		p.other()
		require.True(t, on(other, "b0"))
		require.False(t, on(full, "b1"))
		require.False(t, on(other, "b2"))

		p.other()
		p.disk = full
		p.put(some("c", 12)...)
		p.other()
		require.Len(t, p.put(some("c", 12)...), 10, "it owes a burst now")
		p.other()
		require.False(t, on(full, "a0"))
		require.False(t, on(other, "a1"), "it is put a second time, but what comes before it is refused again")
		p.other()
		require.True(t, on(other, "a1"), "what came before is not put with it")
	})
}

// TestPromptsFollowEachOther: that a client puts a prompt after another one that is refused does not have it refused.
func TestPromptsFollowEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, p *putter) {
		require.Empty(t, p.put("a0", "a1", "b0", "b1"))
		require.Equal(t, []string{"b0", "b1"}, p.put("c0", "b0", "b1"))
		time.Sleep(time.Hour)
		names := some("d", 300)
		require.Equal(t, []string{"d0"}, p.put("d0"))
		time.Sleep(time.Hour)
		p.put(some("e", 20)...) // The last of them are refused.
		time.Sleep(time.Hour)
		require.Equal(t, names[256:258], p.put(names[:258]...), "it ends after so many objects that no prompt is longer")
	})
}

// TestReplicasHaveOneVerdict: a second replica of an object is no second put, and costs nothing.
func TestReplicasHaveOneVerdict(t *testing.T) {
	inBubble(t, func(t *testing.T, p *putter) {
		again := func(name string) []string {
			p.next--
			return p.put(name)
		}
		p.other()
		require.Empty(t, p.put("a"))
		require.Empty(t, again("a"))
		require.Empty(t, p.put("other"))
		p.next--
		require.Empty(t, again("a"))
		require.Equal(t, []string{"a"}, p.put("a"))
		require.Equal(t, []string{"a"}, again("a"))
		p.other()
		require.Empty(t, p.put(some("b", 12)...))
		p.other()
		require.Equal(t, some("b", 9), p.put(some("b", 12)...))
	})
}
