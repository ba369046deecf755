// Package wire is the framed stream between the launcher and the agent of one
// host. It runs on the agent's stdin and stdout, inside one SSH session.
//
// The agent first sends a preamble line with a nonce chosen by the
// launcher, which skips whatever the login shell's start files printed before
// it ([FindPreamble]). Everything after the preamble
// is frames, in both directions. The launcher writes nothing before it has
// read the preamble, so start files that read stdin cannot consume frames.
//
// A frame is a 12-byte header and a payload:
//
//	length  uint32  payload bytes, big endian
//	type    uint8   see [Type]
//	flags   uint8   0
//	zero    uint16  0
//	stream  uint32  which output or input stream, else 0
//
// Bulk data (output, stdin) travels raw in payloads of at most [MaxData] bytes.
// Control messages are JSON of at most [MaxControl] bytes. The sender of a bulk
// stream starts with a [Window] of credit and may only send frames that it covers: a frame takes
// its bytes and [FrameCost]. The receiver returns that when the frame has left its hands. So a
// blocked terminal blocks the rank that writes to it and nothing else, and
// neither side needs unbounded memory. A program, a folder and files that come back
// are bulk data without credit: they are sent before or after the job, when they
// delay nothing else.
package wire
