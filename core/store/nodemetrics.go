package store

import "github.com/prometheus/client_golang/prometheus"

// metrics registers what a node shows of itself.
func (n *Node) metrics(r *registrar) *taskMetrics {
	r.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooncake_node_segment_bytes", Help: "Memory contributed to the pool."},
		func() float64 { return float64(n.Size()) }))
	r.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooncake_node_mounted", Help: "1 while the master knows the segments of this node."},
		func() float64 {
			if n.Mounted() {
				return 1
			}
			return 0
		}))
	return &taskMetrics{
		done:       r.counter("mooncake_node_tasks_done_total", "Copies and moves carried out for the master."),
		failed:     r.counter("mooncake_node_tasks_failed_total", "Copies and moves that failed."),
		bytes:      r.counter("mooncake_node_task_bytes_total", "Bytes read for copies and moves."),
		mismatches: r.counter("mooncake_node_task_checksum_mismatches_total", "Copies and moves given up because the source had wrong bytes."),
	}
}

// taskMetrics count what the executor did.
type taskMetrics struct{ done, failed, bytes, mismatches prometheus.Counter }
