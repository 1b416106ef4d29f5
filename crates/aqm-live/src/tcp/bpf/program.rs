//! The hand-assembled BPF program that writes the sender's window into packets.
//!
//! Sources: RFC 9669, 2024 (instruction set); bpf-helpers(7) (helper functions).

/// An instruction in the kernel's format.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// The destination register is in the lower four bits, and the source register is in the upper four bits; on
    /// big-endian machines, the order is reversed.
    registers: u8,
    pub(super) offset: i16,
    immediate: i32,
}

/// Placeholder for the offset of a jump to the end of the program.
const TO_END: i16 = i16::MAX;

/// Registers: R0 contains the return value of a helper. The other registers contain the arguments of helpers, values
/// that are preserved across calls, and the stack pointer.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const CONTEXT: u8 = 6;
const NEW: u8 = 7;
const OLD: u8 = 8;
const STACK: u8 = 10;

/// Offset of the protocol in `struct __sk_buff`; the value is an `ETH_P_*` constant in network byte order.
const SK_BUFF_PROTOCOL: i16 = 16;
const SK_BUFF_SOCKET: i16 = 168;
/// Offset of the congestion window in `struct bpf_tcp_sock`.
const TCP_SOCK_SND_CWND: i16 = 0;

const SKB_STORE_BYTES: i32 = 9;
const L3_CSUM_REPLACE: i32 = 10;
const SKB_LOAD_BYTES: i32 = 26;
const SK_FULLSOCK: i32 = 95;
const TCP_SOCK: i32 = 96;

/// Offset of the identification field in the IPv4 header. A packet on a TUN device begins with the IPv4 header.
const ID: i32 = 4;
const CHECKSUM: i32 = 10;
const DONT_FRAGMENT: i32 = 0x40;

/// Stack offset at which the program stores the identification field and the flags that follow this field.
const READ: i16 = -8;
const WRITTEN: i16 = -16;

/// Return value that makes the kernel continue with the next program on the device, if there is one.
const TCX_NEXT: i32 = -1;

const fn instruction(code: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    let registers =
        if cfg!(target_endian = "little") { destination | source << 4 } else { destination << 4 | source };
    Instruction { code, registers, offset, immediate }
}

const fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0, 0)
}

const fn set(to: u8, value: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, value)
}

const fn add(to: u8, value: i32) -> Instruction {
    instruction(0x07, to, 0, 0, value)
}

const fn and(to: u8, value: i32) -> Instruction {
    instruction(0x57, to, 0, 0, value)
}

/// Reads 8, 4, 2 or 1 bytes at an address.
const fn read(code: u8, to: u8, address: u8, offset: i16) -> Instruction {
    instruction(code, to, address, offset, 0)
}

const READ_8: u8 = 0x79;
const READ_4: u8 = 0x61;
const READ_2: u8 = 0x69;
const READ_1: u8 = 0x71;

const fn write_2(address: u8, offset: i16, from: u8) -> Instruction {
    instruction(0x6b, address, from, offset, 0)
}

const fn end_if_zero(register: u8) -> Instruction {
    instruction(0x15, register, 0, TO_END, 0)
}

const fn end_if_not(register: u8, value: i32) -> Instruction {
    instruction(0x55, register, 0, TO_END, value)
}

const fn skip_next_if_at_most(register: u8, value: i32) -> Instruction {
    instruction(0xb5, register, 0, 1, value)
}

const fn to_network_order_16(register: u8) -> Instruction {
    instruction(0xdc, register, 0, 0, 16)
}

const fn call(helper: i32) -> Instruction {
    instruction(0x85, 0, 0, 0, helper)
}

const fn exit() -> Instruction {
    instruction(0x95, 0, 0, 0, 0)
}

/// Returns the program. If a TCP packet over IPv4 must not be fragmented, the program writes the sender's window into
/// the identification field and updates the checksum. All other packets remain unchanged.
pub(super) fn program() -> Vec<Instruction> {
    let ethertype_ipv4 = i32::from(0x0800_u16.to_be());
    let mut program = vec![
        copy(CONTEXT, R1),
        read(READ_4, R1, CONTEXT, SK_BUFF_PROTOCOL),
        end_if_not(R1, ethertype_ipv4),
        read(READ_8, R1, CONTEXT, SK_BUFF_SOCKET),
        end_if_zero(R1),
        call(SK_FULLSOCK),
        end_if_zero(R0),
        copy(R1, R0),
        call(TCP_SOCK),
        end_if_zero(R0),
        read(READ_4, NEW, R0, TCP_SOCK_SND_CWND),
        skip_next_if_at_most(NEW, u16::MAX as i32),
        set(NEW, u16::MAX as i32),
        to_network_order_16(NEW),
        // Read the identification field and the flags that follow this field.
        copy(R1, CONTEXT),
        set(R2, ID),
        copy(R3, STACK),
        add(R3, READ.into()),
        set(R4, 4),
        call(SKB_LOAD_BYTES),
        end_if_not(R0, 0),
        read(READ_1, R1, STACK, READ + 2),
        and(R1, DONT_FRAGMENT),
        end_if_zero(R1),
        read(READ_2, OLD, STACK, READ),
        write_2(STACK, WRITTEN, NEW),
        copy(R1, CONTEXT),
        set(R2, CHECKSUM),
        copy(R3, OLD),
        copy(R4, NEW),
        set(R5, 2),
        call(L3_CSUM_REPLACE),
        end_if_not(R0, 0),
        copy(R1, CONTEXT),
        set(R2, ID),
        copy(R3, STACK),
        add(R3, WRITTEN.into()),
        set(R4, 2),
        set(R5, 0),
        call(SKB_STORE_BYTES),
    ];
    let end = program.len();
    for (at, instruction) in program.iter_mut().enumerate() {
        if instruction.offset == TO_END {
            instruction.offset = (end - at - 1) as i16;
        }
    }
    program.extend([set(R0, TCX_NEXT), exit()]);
    program
}
