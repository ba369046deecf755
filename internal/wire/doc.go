// Package wire is the framed stream between the launcher and the agent of one
// host. It runs on the agent's stdin and stdout, inside one SSH session.
//
// The agent speaks first: a preamble line that holds a nonce chosen by the
// launcher, so that whatever the login shell's start files printed before it
// can be told apart and skipped ([FindPreamble]). Everything after the preamble
// is frames, in both directions. The launcher writes nothing before it has
// seen the preamble, so start files that read stdin cannot eat frames.
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
// stream starts with [Window] bytes of credit and may only send what credit it
// holds; the receiver returns credit when the bytes have left its hands. So a
// blocked terminal blocks the rank that writes to it and nothing else, and
// neither side needs unbounded memory. A program and a folder are bulk data
// without credit: they come before the job, when nothing else can be held up.
package wire
