package metrics

// The operations of the summary, in its order.
var (
	opNames    = [...]string{"PutStart", "PutEnd", "PutRevoke", "Get", "Exist", "Del", "DelAll", "Ping"}
	batchNames = [...]string{"PutStart", "PutEnd", "PutRevoke", "Get", "ExistKey"}
)

type opCount struct{ total, failed uint64 }

type batchCount struct{ total, failed, partial, items, failedItems uint64 }

// window is what the rates of the summary are differences of.
type window struct {
	ops     [len(opNames)]opCount
	batches [len(batchNames)]batchCount
}

func (s *Set) window() (w window) {
	for i, o := range [len(opNames)]*Op{
		&s.PutStart.One, &s.PutEnd.One, &s.PutRevoke.One, &s.Get.One, &s.Exist.One, &s.Remove, &s.RemoveAll, &s.Ping,
	} {
		// The failures are read first, so that they never exceed the total.
		w.ops[i].failed = o.Failures.Load()
		w.ops[i].total = o.Requests.Load()
	}
	for i, b := range [len(batchNames)]*Batch{
		&s.PutStart.Many, &s.PutEnd.Many, &s.PutRevoke.Many, &s.Get.Many, &s.Exist.Many,
	} {
		c := &w.batches[i]
		c.failed, c.partial, c.failedItems = b.Failures.Load(), b.Partial.Load(), b.FailedItems.Load()
		c.items, c.total = b.Items.Load(), b.Requests.Load()
	}
	return w
}
