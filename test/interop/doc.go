// Package interop holds the tests that run nodes of kvcache-ai/Mooncake, from their published
// wheel, against ours: each side reads and writes the memory of the other, and the content
// is compared.
//
// They run where MOONCAKE_UPSTREAM_PYTHON names a Python that has the wheel:
//
//	python3 -m venv /tmp/upstream && /tmp/upstream/bin/pip install mooncake-transfer-engine-non-cuda
//	MOONCAKE_UPSTREAM_PYTHON=/tmp/upstream/bin/python go test ./test/interop
//
// Without it they are skipped.
//
// Those over RDMA need two RDMA devices besides, and run in the VM of test/rdma-vm:
//
//	go test -c -o /tmp/interop.test ./test/interop
//	cd test/interop && ../rdma-vm/rdma-vm --ro -- /tmp/interop.test -test.v -test.run RDMA
package interop
