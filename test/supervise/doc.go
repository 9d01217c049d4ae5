// Package supervise holds transports in processes of their own to what is promised of them:
// real programs that are killed, stopped and changed for others while operations are under
// way. It lies outside of the core because its test plugin is a real transport with faults
// to order.
package supervise
