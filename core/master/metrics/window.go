package metrics

// counted names an operation as the summary does.
type counted[T any] struct {
	name string
	of   T
}

// ops are the operations of the summary, in its order.
func (s *Set) ops() []counted[*Op] {
	return []counted[*Op]{
		{"PutStart", &s.PutStart.One}, {"PutEnd", &s.PutEnd.One}, {"PutRevoke", &s.PutRevoke.One},
		{"Get", &s.Get.One}, {"Exist", &s.Exist.One}, {"Del", &s.Remove}, {"DelAll", &s.RemoveAll}, {"Ping", &s.Ping},
		{"CopyStart", &s.Copy.Start}, {"CopyEnd", &s.Copy.End}, {"CopyRevoke", &s.Copy.Revoke},
		{"MoveStart", &s.Move.Start}, {"MoveEnd", &s.Move.End}, {"MoveRevoke", &s.Move.Revoke},
		{"EvictDiskReplica", new(Op)},
	}
}

// batches are the batch operations of the summary, in its order.
func (s *Set) batches() []counted[*Batch] {
	return []counted[*Batch]{
		{"PutStart", &s.PutStart.Many}, {"PutEnd", &s.PutEnd.Many}, {"PutRevoke", &s.PutRevoke.Many},
		{"Get", &s.Get.Many}, {"ExistKey", &s.Exist.Many}, {"QueryIp", &s.QueryHosts}, {"Clear", &s.ClearReplicas},
	}
}

// tasks are the operations on tasks, in the summary's order.
func (s *Set) tasks() []counted[*Op] {
	return []counted[*Op]{
		{"CreateMoveTask", &s.CreateMoveTask}, {"CreateCopyTask", &s.CreateCopyTask}, {"QueryTask", &s.QueryTask},
		{"FetchTasks", &s.FetchTasks}, {"MarkTaskToComplete", &s.CompleteTask},
	}
}

type opCount struct{ total, failed uint64 }

type batchCount struct{ total, failed, partial, items, failedItems uint64 }

// window is what the rates of the summary are differences of.
type window struct {
	ops, tasks []opCount
	batches    []batchCount
}

func (s *Set) window() (w window) {
	w.ops, w.tasks = count(s.ops()), count(s.tasks())
	for _, b := range s.batches() {
		var c batchCount
		c.failed, c.partial, c.failedItems = b.of.Failures.Load(), b.of.Partial.Load(), b.of.FailedItems.Load()
		c.items, c.total = b.of.Items.Load(), b.of.Requests.Load()
		w.batches = append(w.batches, c)
	}
	return w
}

func count(ops []counted[*Op]) []opCount {
	out := make([]opCount, len(ops))
	for i, o := range ops {
		// The failures are read first, so that they never exceed the total.
		out[i].failed = o.of.Failures.Load()
		out[i].total = o.of.Requests.Load()
	}
	return out
}
