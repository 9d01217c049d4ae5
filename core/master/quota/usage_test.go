package quota

import (
	"math"
	"math/big"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func usageOf(entries ...Entry) *Usage {
	l := NewUsage()
	l.Apply(Policy{Tenants: entries})
	return l
}

func TestChargeAndRefund(t *testing.T) {
	l := usageOf(Entry{"a", 100}, Entry{"default", 10})
	require.NoError(t, l.Charge("a", 60))
	err := l.Charge("a", 41)
	require.True(t, errs.Is(err, errs.TenantQuotaExceeded))
	require.ErrorContains(t, err, `tenant "a" has 60 of 100 bytes and wants 41 more`)
	require.NoError(t, l.Charge("a", 40))
	require.EqualValues(t, 30, l.Short("a", 30))
	require.Zero(t, l.Short("a", 101), "no eviction would help")
	l.Refund("a", 50)
	require.Zero(t, l.Short("a", 30))
	require.NoError(t, l.Charge("a", 50))
	require.True(t, errs.Is(l.Charge("absent", 1), errs.TenantNotRegistered))
	require.NoError(t, l.Charge("", 10), "no name is the default tenant")
	require.Error(t, l.Charge("default", 1))
	l.Refund("default", 1000)
	q, err := l.Get("default")
	require.NoError(t, err)
	require.Equal(t, model.TenantQuota{Tenant: "default", Requested: 10, Effective: 10, ExplicitPolicy: true}, q, "never less than nothing")
	require.True(t, errs.Is(l.Charge("a", math.MaxUint64), errs.TenantQuotaExceeded))
}

func TestABatchIsChargedAsFarAsItFits(t *testing.T) {
	l := usageOf(Entry{"a", 10})
	n, err := l.ChargeBatch("a", []uint64{4, 4, 4, 1})
	require.Equal(t, 2, n)
	require.True(t, errs.Is(err, errs.TenantQuotaExceeded))
	n, err = l.ChargeBatch("a", []uint64{2})
	require.Equal(t, 1, n)
	require.NoError(t, err)
	n, err = l.ChargeBatch("b", []uint64{2})
	require.Zero(t, n)
	require.True(t, errs.Is(err, errs.TenantNotRegistered))
}

func TestQuotasShareASmallPool(t *testing.T) {
	l := usageOf(Entry{"a", 300}, Entry{"b", 100})
	l.SetCapacity(200)
	require.Equal(t, Totals{Capacity: 200, Requested: 400, Effective: 200}, l.Totals())
	require.NoError(t, l.Charge("a", 150))
	err := l.Charge("a", 1)
	require.True(t, errs.Is(err, errs.TenantQuotaExceeded))
	require.ErrorContains(t, err, "300 bytes, cut because")
	l.SetCapacity(100)
	q, err := l.Get("a")
	require.NoError(t, err)
	require.Equal(t, model.TenantQuota{Tenant: "a", Requested: 300, Effective: 75, Charged: 150, OverQuota: true, ExplicitPolicy: true}, q)
	require.EqualValues(t, 76, l.Short("a", 1))
	l.SetCapacity(1000)
	require.NoError(t, l.Charge("a", 150))
}

func TestATenantThatLeftThePolicyWritesNoMore(t *testing.T) {
	l := usageOf(Entry{"a", 100}, Entry{"b", 100})
	require.NoError(t, l.Charge("a", 30))
	l.Apply(Policy{})
	require.True(t, errs.Is(l.Charge("a", 1), errs.TenantNotRegistered))
	require.Equal(t, []model.TenantQuota{{Tenant: "a", Charged: 30, AdmissionClosed: true, OverQuota: true}}, l.List())
	l.Refund("a", 10)
	l.Apply(Policy{Tenants: []Entry{{"a", 25}}})
	require.NoError(t, l.Charge("a", 5), "and again when it is back, with what it had")
	require.Error(t, l.Charge("a", 1))
	l.Apply(Policy{})
	l.Refund("a", 25)
	require.Empty(t, l.List(), "nothing is left of it")
	_, err := l.Get("a")
	require.True(t, errs.Is(err, errs.TenantNotRegistered))
}

func TestChargeAnyway(t *testing.T) {
	l := usageOf(Entry{"a", 10})
	l.ChargeAnyway("a", 30)
	l.ChargeAnyway("gone", 5)
	require.Len(t, l.List(), 2)
	q, err := l.Get("gone")
	require.NoError(t, err)
	require.True(t, q.AdmissionClosed)
	require.EqualValues(t, 5, q.Charged)
	l.Refund("gone", 5)
	require.Len(t, l.List(), 1)
	require.Error(t, l.Charge("a", 1))
}

func TestCloseOnlyWhatIsEmpty(t *testing.T) {
	l := usageOf(Entry{"a", 10}, Entry{"b", 10})
	l.SetCapacity(10)
	require.NoError(t, l.Charge("a", 1))
	require.True(t, errs.Is(l.close("a"), errs.TenantNotEmpty))
	require.NoError(t, l.Charge("a", 1), "a refused delete changes nothing")
	require.True(t, errs.Is(l.close("absent"), errs.TenantNotRegistered))
	require.NoError(t, l.close("b"))
	require.True(t, errs.Is(l.Charge("b", 1), errs.TenantNotRegistered))
	require.NoError(t, l.Charge("a", 8), "its share is free again")
	l.Apply(Policy{})
	require.True(t, errs.Is(l.close("a"), errs.TenantNotEmpty))
	l.Refund("a", 10)
	require.True(t, errs.Is(l.close("a"), errs.TenantNotRegistered))
}

func TestNilUsageIsOff(t *testing.T) {
	var l *Usage
	require.False(t, l.Enabled())
	require.True(t, NewUsage().Enabled())
	require.NoError(t, l.Charge("a", math.MaxUint64))
	n, err := l.ChargeBatch("a", make([]uint64, 3))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	l.Refund("a", 1)
	l.ChargeAnyway("a", 1)
	l.SetCapacity(1)
	l.Apply(Policy{})
	require.Zero(t, l.Short("a", 1))
	require.Empty(t, l.List())
	require.Zero(t, l.Totals())
	_, err = l.Get("a")
	require.True(t, errs.Is(err, errs.UnavailableInCurrentMode))
}

func TestSharesAddUpToNoMoreThanThePool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quotas := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(1, 1000), rapid.Uint64Range(1, MaxQuota), rapid.Just(uint64(MaxQuota))), 1, 20).Draw(t, "quotas")
		capacity := rapid.OneOf(rapid.Uint64Range(0, 2000), rapid.Uint64()).Draw(t, "capacity")
		var p Policy
		sum := new(big.Int)
		for i, q := range quotas {
			p.Tenants = append(p.Tenants, Entry{string(rune('a' + i)), q})
			sum.Add(sum, new(big.Int).SetUint64(q))
		}
		l := NewUsage()
		l.SetCapacity(capacity)
		l.Apply(p)
		pool := new(big.Int).SetUint64(capacity)
		total := new(big.Int)
		for _, q := range l.List() {
			total.Add(total, new(big.Int).SetUint64(q.Effective))
			want := new(big.Int).SetUint64(q.Requested)
			if sum.Cmp(pool) > 0 {
				want.Mul(want, pool).Div(want, sum)
			}
			// Rounding may lose a little, and more where the sum takes more than 64 bits.
			slack := new(big.Int).Rsh(want, 50)
			require.LessOrEqual(t, q.Effective, want.Uint64())
			require.GreaterOrEqual(t, new(big.Int).Add(new(big.Int).SetUint64(q.Effective), slack.Add(slack, big.NewInt(33))).Cmp(want), 0, "%d of %s", q.Effective, want)
		}
		require.True(t, sum.Cmp(pool) <= 0 || total.Cmp(pool) <= 0)
	})
}

// Whatever happens at once, no tenant gets more than its quota, and in the end exactly what is
// held is charged.
func TestConcurrentChargesStayBelowTheQuota(t *testing.T) {
	l := usageOf(Entry{"a", 1000}, Entry{"b", 50})
	var wg sync.WaitGroup
	held := make([]uint64, 4)
	for w := range held {
		wg.Go(func() {
			for i := range 3000 {
				size := uint64(1 + (i*7+w)%90)
				if l.Charge("a", size) == nil {
					if held[w] += size; held[w] > 300 {
						l.Refund("a", held[w]-10)
						held[w] = 10
					}
				}
				switch {
				case w == 0 && i%100 == 0:
					l.Apply(Policy{Tenants: []Entry{{"b", 50}}})
				case w == 0 && i%100 == 50:
					l.Apply(Policy{Tenants: []Entry{{"a", 1000}}})
				case w == 1 && l.close("a") == nil && held[w] > 0:
					t.Error("a tenant with objects was deleted")
				case w == 2:
					if q, err := l.Get("a"); err == nil && q.Charged > 1000 {
						t.Errorf("%d bytes charged", q.Charged)
					}
				}
			}
		})
	}
	wg.Wait()
	sum := held[0] + held[1] + held[2] + held[3]
	q, err := l.Get("a")
	if sum > 0 {
		require.NoError(t, err)
	}
	require.Equal(t, sum, q.Charged)
}

func TestChargingAllocatesNothing(t *testing.T) {
	l := usageOf(Entry{"a", 1000})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if l.Charge("a", 10) != nil {
			t.Fail()
		}
		l.Refund("a", 10)
	}))
}

func BenchmarkChargeRefund(b *testing.B) {
	l := usageOf(Entry{"a", 1 << 40}, Entry{"b", 1 << 40})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if l.Charge("a", 100) == nil {
				l.Refund("a", 100)
			}
		}
	})
}
