//go:build !(cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x))

package verbs

import (
	"syscall"
	"unsafe"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
)

// Nothing can be loaded here, so no object exists that could call the rest.

const noCgo = int32(syscall.ENOSYS)

func sysOpen(string) (unsafe.Pointer, uint32, string) {
	return nil, 0, "this program was built without cgo, or not for Linux on 64 bits; use a build with cgo or the plugin mooncake-plugin-transport-rdma"
}

func sysForkInit(unsafe.Pointer) int32                { return noCgo }
func sysDevices(unsafe.Pointer) ([]DeviceInfo, int32) { return nil, noCgo }

func sysCloseDevice(_, _ unsafe.Pointer) int32                              { return noCgo }
func sysQueryDevice(_, _ unsafe.Pointer) (DeviceAttr, int32)                { return DeviceAttr{}, noCgo }
func sysQueryPort(_, _ unsafe.Pointer, _ uint8) (PortAttr, int32)           { return PortAttr{}, noCgo }
func sysGIDTable(_, _ unsafe.Pointer, _ uint32, _ int) ([]gid.Entry, int32) { return nil, noCgo }
func sysGIDEx(_, _ unsafe.Pointer, _, _ uint32) (gid.Entry, int32)          { return gid.Entry{}, noCgo }
func sysGID(_, _ unsafe.Pointer, _ uint8, _ int) (gid.GID, int32)           { return gid.GID{}, noCgo }
func sysNextEvent(_, _ unsafe.Pointer) (Event, int32)                       { return Event{}, noCgo }
func sysAllocPD(_, _ unsafe.Pointer) (unsafe.Pointer, int32)                { return nil, noCgo }
func sysDeallocPD(_, _ unsafe.Pointer) int32                                { return noCgo }
func sysDeregMR(_, _ unsafe.Pointer) int32                                  { return noCgo }
func sysDestroyChannel(_, _ unsafe.Pointer) int32                           { return noCgo }
func sysCreateChannel(_, _ unsafe.Pointer) (unsafe.Pointer, int, int32)     { return nil, -1, noCgo }
func sysDestroyCQ(unsafe.Pointer) int32                                     { return noCgo }
func sysArm(unsafe.Pointer) int32                                           { return noCgo }
func sysTakeCQEvents(unsafe.Pointer) int32                                  { return noCgo }
func sysPoll(unsafe.Pointer, []Result) (int, int32)                         { return 0, noCgo }
func sysStrays(unsafe.Pointer) uint64                                       { return 0 }
func sysRetireQP(_, _ unsafe.Pointer)                                       {}
func sysDestroyQP(unsafe.Pointer) int32                                     { return noCgo }
func sysOutstanding(unsafe.Pointer) int                                     { return 0 }
func sysPost(unsafe.Pointer, []WR) (int, int32)                             { return 0, noCgo }
func sysToInit(unsafe.Pointer, InitAttr) int32                              { return noCgo }
func sysToRTR(unsafe.Pointer, RTRAttr, uint32) int32                        { return noCgo }
func sysToRTS(unsafe.Pointer, RTSAttr) int32                                { return noCgo }
func sysToErr(unsafe.Pointer) int32                                         { return noCgo }
func sysQueryQP(unsafe.Pointer) (QPInfo, int32)                             { return QPInfo{}, noCgo }

func sysOpenDevice(unsafe.Pointer, string, *DeviceInfo) (h unsafe.Pointer, asyncFD, vectors int, call string, errno int32) {
	return nil, 0, 0, "", noCgo
}

func sysRegMR(_, _ unsafe.Pointer, _, _ uint64, _ Access) (h unsafe.Pointer, lkey, rkey uint32, errno int32) {
	return nil, 0, 0, noCgo
}

func sysRegDMABuf(_, _ unsafe.Pointer, _, _, _ uint64, _ int, _ Access) (h unsafe.Pointer, lkey, rkey uint32, errno int32) {
	return nil, 0, 0, noCgo
}

func sysCreateCQ(_, _, _ unsafe.Pointer, _, _ int) (h unsafe.Pointer, entries int, errno int32) {
	return nil, 0, noCgo
}

func sysCreateQP(_, _ unsafe.Pointer, _ QPConfig) (h unsafe.Pointer, num uint32, inline int, errno int32) {
	return nil, 0, 0, noCgo
}
