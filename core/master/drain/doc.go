// Package drain empties segments by moving their objects elsewhere.
//
// A job takes its segments out of use for new objects and then walks over what lies on
// them, again and again, until a walk finds nothing. Every object it meets that can be
// moved becomes a task for the client that owns the segment, up to so many at a time. An
// object that cannot be moved now, since it is leased or being written, is met again on the
// next walk. Nothing new can arrive, so a job ends.
//
// It ends well when the segments are empty (they are DRAINED then), and otherwise when an
// object could not be moved in several attempts, when a segment went away or was put to
// other use, or when nothing has got better for a long time: with a message that says which
// objects stand in the way and why, and with the segments back in use.
//
//	CREATED    the segments take no more objects
//	PLANNING   the first walk counts what there is
//	RUNNING    objects are moved
//	SUCCEEDED  FAILED  CANCELED
package drain
