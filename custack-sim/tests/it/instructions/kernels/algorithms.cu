// Algorithms as programs have them, each for one block or a few.
typedef unsigned u32;
typedef unsigned long long u64;

//@ sort_by_digits nvcc=13.0:sm_90 grid=1 block=128 : u32[128] out[512]
extern "C" __global__ void sort_by_digits(const u32* in, u32* out) {
    __shared__ u32 a[128], b[128], zeros[128];
    int t = threadIdx.x;
    a[t] = in[t];
    for (int bit = 0; bit < 32; bit++) {
        __syncthreads();
        u32 value = a[t], one = value >> bit & 1;
        zeros[t] = !one;
        for (int step = 1; step < 128; step *= 2) {
            __syncthreads();
            u32 more = t >= step ? zeros[t - step] : 0;
            __syncthreads();
            zeros[t] += more;
        }
        __syncthreads();
        u32 before = zeros[t] - !one, all = zeros[127];
        b[one ? all + t - before : before] = value;
        __syncthreads();
        a[t] = b[t];
    }
    out[t] = a[t];
}

//@ sums_before_each nvcc=13.0:sm_90:-lineinfo grid=3 block=256 : i32[768,-1000,1000] out[3072]
extern "C" __global__ void sums_before_each(const int* in, int* out) {
    __shared__ int tree[256];
    int t = threadIdx.x, at = blockIdx.x * 256 + t;
    tree[t] = in[at];
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        int i = (t + 1) * 2 * step - 1;
        if (i < 256) tree[i] += tree[i - step];
    }
    __syncthreads();
    if (t == 255) tree[255] = 0;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        int i = (t + 1) * 2 * step - 1;
        if (i < 256) {
            int left = tree[i - step];
            tree[i - step] = tree[i];
            tree[i] += left;
        }
    }
    __syncthreads();
    out[at] = tree[t];
}

//@ tally_of_bytes nvrtc=12.9:sm_80 grid=4 block=64 : u8[4000] out[1024]
extern "C" __global__ void tally_of_bytes(const unsigned char* in, u32* out) {
    __shared__ u32 counts[256];
    for (int i = threadIdx.x; i < 256; i += 64) counts[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 64 + threadIdx.x; i < 4000; i += 256) atomicAdd(&counts[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&out[i], counts[i]);
}

//@ product_by_tiles nvcc=13.0:sm_90:-G grid=2,2 block=16,16 : f32[1024,-2,2] f32[1024,-2,2] out[4096]
extern "C" __global__ void product_by_tiles(const float* a, const float* b, float* c) {
    __shared__ float left[16][16], right[16][17];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    for (int tile = 0; tile < 2; tile++) {
        left[y][x] = a[row * 32 + tile * 16 + x];
        right[y][x] = b[(tile * 16 + y) * 32 + column];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * 32 + column] = sum;
}

//@ living_cells nvrtc=12.9:sm_80:-G grid=1 block=32,32 : u8[1024] out[1024]
extern "C" __global__ void living_cells(const unsigned char* in, unsigned char* out) {
    __shared__ unsigned char cells[2][32][32];
    int x = threadIdx.x, y = threadIdx.y;
    cells[0][y][x] = in[y * 32 + x] & 1;
    for (int round = 0; round < 12; round++) {
        __syncthreads();
        int near = 0;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (dx || dy) near += cells[round & 1][(y + dy) & 31][(x + dx) & 31];
        cells[~round & 1][y][x] = near == 3 || (near == 2 && cells[round & 1][y][x]);
    }
    out[y * 32 + x] = cells[0][y][x] * 2 + cells[1][y][x];
}

//@ checksums_of_lines nvcc=13.0:sm_75 grid=2 block=32 : u8[4096] out[256]
extern "C" __global__ void checksums_of_lines(const unsigned char* in, u32* out) {
    __shared__ u32 table[256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    __syncthreads();
    int at = blockIdx.x * 32 + threadIdx.x;
    u32 crc = ~0u;
    for (int i = 0; i < 64; i++) crc = crc >> 8 ^ table[(crc ^ in[at * 64 + i]) & 255];
    out[at] = ~crc;
}

//@ digests_of_256_bits nvcc=13.0:sm_90 grid=1 block=40 : u32[640] out[1280]
__constant__ u32 ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
__device__ u32 turned(u32 x, int by) { return x >> by | x << (32 - by); }
extern "C" __global__ void digests_of_256_bits(const u32* in, u32* out) {
    u32 w[64], s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, h[8];
    for (int i = 0; i < 16; i++) w[i] = in[threadIdx.x * 16 + i];
    for (int i = 16; i < 64; i++) {
        u32 a = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
        u32 b = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    for (int i = 0; i < 8; i++) h[i] = s[i];
    for (int i = 0; i < 64; i++) {
        u32 one = turned(h[4], 6) ^ turned(h[4], 11) ^ turned(h[4], 25), choice = (h[4] & h[5]) ^ (~h[4] & h[6]);
        u32 first = h[7] + one + choice + ROUNDS[i] + w[i];
        u32 two = turned(h[0], 2) ^ turned(h[0], 13) ^ turned(h[0], 22), most = (h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]);
        for (int k = 7; k > 0; k--) h[k] = h[k - 1];
        h[4] += first;
        h[0] = first + two + most;
    }
    for (int i = 0; i < 8; i++) out[threadIdx.x * 8 + i] = s[i] + h[i];
}

//@ shortest_ways nvrtc=12.9:sm_80:-lineinfo grid=1 block=24,24 : i32[576,1,100] out[2304]
extern "C" __global__ void shortest_ways(const int* in, int* out) {
    __shared__ int way[24][24];
    int x = threadIdx.x, y = threadIdx.y;
    way[y][x] = x == y ? 0 : in[y * 24 + x];
    for (int k = 0; k < 24; k++) {
        __syncthreads();
        int through = way[y][k] + way[k][x];
        __syncthreads();
        if (through < way[y][x]) way[y][x] = through;
    }
    out[y * 24 + x] = way[y][x];
}

//@ longest_common_parts nvcc=13.0:sm_90:-Xcicc=-O0 grid=1 block=64 : i32[64,0,4] i32[64,0,4] out[256]
extern "C" __global__ void longest_common_parts(const int* a, const int* b, int* out) {
    __shared__ int line[3][65];
    int t = threadIdx.x;
    for (int k = 0; k < 3; k++) line[k][t + 1] = line[k][0] = 0;
    int last = 0;
    for (int wave = 0; wave < 127; wave++) {
        __syncthreads();
        int j = wave - t, now = wave % 3, before = (wave + 2) % 3, first = (wave + 1) % 3;
        if (j >= 0 && j < 64) {
            int corner = j ? line[first][t] : 0, up = j ? line[before][t + 1] : 0, left = t ? line[before][t] : 0;
            last = a[t] == b[j] ? corner + 1 : max(up, left);
            line[now][t + 1] = last;
        }
    }
    out[t] = last;
}

//@ numbers_without_divisors nvcc=13.0:sm_90 grid=2 block=128 : out[1024]
extern "C" __global__ void numbers_without_divisors(u32* out) {
    u32 n = blockIdx.x * 128 + threadIdx.x + 1000003, d = 2;
    while (d * d <= n && n % d) d += 1 + (d > 2);
    out[blockIdx.x * 128 + threadIdx.x] = d * d > n ? n : d;
}

//@ queens_on_a_board nvcc=13.0:sm_90:-G grid=1 block=49 : out[196]
extern "C" __global__ void queens_on_a_board(int* out) {
    int first = threadIdx.x / 7, second = threadIdx.x % 7, found = 0;
    u32 columns[8], left[8], right[8], free[8];
    int row = 2;
    bool fits = first != second && first - second != 1 && second - first != 1;
    columns[2] = 1 << first | 1 << second;
    left[2] = 1 << first << 2 | 1 << second << 1;
    right[2] = 1 << first >> 2 | 1 << second >> 1;
    free[2] = fits ? 127 & ~(columns[2] | left[2] | right[2]) : 0;
    while (row >= 2) {
        u32 place = free[row] & -free[row];
        if (!place) { row--; continue; }
        free[row] ^= place;
        if (row == 6) { found++; continue; }
        columns[row + 1] = columns[row] | place;
        left[row + 1] = (left[row] | place) << 1;
        right[row + 1] = (right[row] | place) >> 1;
        row++;
        free[row] = 127 & ~(columns[row] | left[row] | right[row]);
    }
    out[threadIdx.x] = found;
}

//@ powers_of_a_prime_field nvcc=13.0:sm_80:-Xcicc=-O0 grid=1 block=96 : u64[96] u64[96] out[768]
extern "C" __global__ void powers_of_a_prime_field(const u64* base, const u64* exponent, u64* out) {
    const u64 p = (1ull << 61) - 1;
    u64 x = base[threadIdx.x] % p, e = exponent[threadIdx.x], r = 1;
    for (; e; e >>= 1) {
        u64 high = __umul64hi(r, x), low = r * x;
        if (e & 1) { r = (low & p) + (low >> 61 | high << 3); r = (r & p) + (r >> 61); if (r >= p) r -= p; }
        high = __umul64hi(x, x), low = x * x;
        x = (low & p) + (low >> 61 | high << 3);
        x = (x & p) + (x >> 61);
        if (x >= p) x -= p;
    }
    out[threadIdx.x] = r;
}

//@ transform_over_a_field nvcc=13.0:sm_90 grid=1 block=128 : u32[256] out[1024]
extern "C" __global__ void transform_over_a_field(const u32* in, u32* out) {
    const u32 p = 998244353;
    __shared__ u32 a[256];
    int t = threadIdx.x;
    for (int k = 0; k < 2; k++) a[__brev(t + 128 * k) >> 24] = in[t + 128 * k] % p;
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int at = t / half * 2 * half + t % half;
        u64 root = 1, x = 3;
        for (u32 e = (p - 1) / (2 * half) * (t % half); e; e >>= 1, x = x * x % p)
            if (e & 1) root = root * x % p;
        u32 u = a[at], v = a[at + half] * root % p;
        a[at] = u + v >= p ? u + v - p : u + v;
        a[at + half] = u >= v ? u - v : u + p - v;
    }
    __syncthreads();
    for (int k = 0; k < 2; k++) out[t + 128 * k] = a[t + 128 * k];
}

//@ text_in_base_64 nvcc=13.0:sm_75:-lineinfo grid=1 block=64 : u8[192] out[256]
extern "C" __global__ void text_in_base_64(const unsigned char* in, char* out) {
    const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int t = threadIdx.x;
    u32 bits = in[3 * t] << 16 | in[3 * t + 1] << 8 | in[3 * t + 2];
    for (int k = 0; k < 4; k++) out[4 * t + k] = digits[bits >> (18 - 6 * k) & 63];
}

//@ runs_of_equal_bytes nvrtc=12.9:sm_80 grid=1 block=128 : i32[128,0,3] out[1024]
extern "C" __global__ void runs_of_equal_bytes(const int* in, int* out) {
    __shared__ int begins[128], numbers[128];
    int t = threadIdx.x;
    begins[t] = t == 0 || in[t] != in[t - 1];
    __syncthreads();
    numbers[t] = begins[t];
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        int more = t >= step ? numbers[t - step] : 0;
        __syncthreads();
        numbers[t] += more;
    }
    __syncthreads();
    out[2 * t] = out[2 * t + 1] = -1;
    __syncthreads();
    if (begins[t]) out[2 * (numbers[t] - 1)] = in[t];
    atomicAdd(&out[2 * (numbers[t] - 1) + 1], 1);
}

//@ table_of_open_addresses nvcc=13.0:sm_90 grid=4 block=64 : i32[256,1,90] out[1024] out[1024]
extern "C" __global__ void table_of_open_addresses(const int* keys, u32* sums, u32* found) {
    __shared__ u32 slots[128], counts[128];
    for (int i = threadIdx.x; i < 128; i += 64) slots[i] = counts[i] = 0;
    __syncthreads();
    int at = blockIdx.x * 64 + threadIdx.x;
    u32 key = keys[at], slot = key * 2654435761u >> 25;
    for (;; slot = (slot + 1) & 127) {
        u32 old = atomicCAS(&slots[slot], 0, key);
        if (old == 0 || old == key) break;
    }
    atomicAdd(&counts[slot], 1);
    __syncthreads();
    atomicAdd(&sums[key], 1);
    u32 mine = 0;
    for (int i = 0; i < 128; i++) if (slots[i] == key) mine = counts[i];
    found[at] = mine;
}

//@ widths_of_numbers_in_lists nvcc=13.0:sm_90:-lineinfo grid=1 block=50 : u64[50] out[400]
extern "C" __global__ void widths_of_numbers_in_lists(const u64* in, unsigned char* out) {
    u64 x = in[threadIdx.x] >> (threadIdx.x % 63);
    unsigned char* to = out + 8 * threadIdx.x;
    int n = 0;
    do to[n++] = (x & 127) | (x > 127 ? 128 : 0); while ((x >>= 7) && n < 8);
}

//@ large_numbers_multiplied nvcc=13.0:sm_90 grid=1 block=32 : u64[128] u64[128] out[2048]
extern "C" __global__ void large_numbers_multiplied(const u64* a, const u64* b, u64* out) {
    u64 r[8] = {};
    for (int i = 0; i < 4; i++) {
        u64 carry = 0;
        for (int j = 0; j < 4; j++) {
            unsigned __int128 s = (unsigned __int128)a[threadIdx.x * 4 + i] * b[threadIdx.x * 4 + j] + r[i + j] + carry;
            r[i + j] = s;
            carry = s >> 64;
        }
        r[i + 4] = carry;
    }
    for (int i = 0; i < 8; i++) out[threadIdx.x * 8 + i] = r[i];
}

//@ places_on_a_curve nvrtc=12.9:sm_80:-lineinfo grid=2 block=8,8 : out[1024]
extern "C" __global__ void places_on_a_curve(u32* out) {
    u32 x = threadIdx.x + 8 * blockIdx.x, y = threadIdx.y, morton = 0, d = 0, hx = x, hy = y;
    for (int bit = 0; bit < 4; bit++) morton |= (x >> bit & 1) << 2 * bit | (y >> bit & 1) << (2 * bit + 1);
    for (u32 s = 8; s > 0; s /= 2) {
        u32 rx = (hx & s) > 0, ry = (hy & s) > 0;
        d += s * s * ((3 * rx) ^ ry);
        if (!ry) {
            if (rx) hx = 15 - hx, hy = 15 - hy;
            u32 swap = hx;
            hx = hy;
            hy = swap;
        }
    }
    out[2 * (y * 16 + x)] = morton;
    out[2 * (y * 16 + x) + 1] = d;
}

//@ points_inside_of_a_ring nvcc=13.0:sm_90 grid=2 block=64 : f32[256,-1,1] f32[24,-1,1] out[128]
extern "C" __global__ void points_inside_of_a_ring(const float2* points, const float2* ring, unsigned char* out) {
    float2 p = points[blockIdx.x * 64 + threadIdx.x];
    bool inside = false;
    for (int i = 0, j = 11; i < 12; j = i++) {
        float2 a = ring[i], b = ring[j];
        if ((a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x) inside = !inside;
    }
    out[blockIdx.x * 64 + threadIdx.x] = inside;
}

//@ rays_that_meet_balls nvcc=13.0:sm_90:-G grid=1 block=100 : f32[300,-1,1] f32[32,-3,3] out[800]
struct Hit { float at; int which; };
__device__ Hit nearest(float3 way, const float4* balls) {
    Hit hit = {1e30f, -1};
    for (int i = 0; i < 8; i++) {
        float4 ball = balls[i];
        float b = way.x * ball.x + way.y * ball.y + way.z * ball.z, c = ball.x * ball.x + ball.y * ball.y + ball.z * ball.z - ball.w * ball.w;
        float d = b * b - c;
        if (d < 0) continue;
        float at = b - sqrtf(d);
        if (at > 0 && at < hit.at) hit = {at, i};
    }
    return hit;
}
extern "C" __global__ void rays_that_meet_balls(const float3* ways, const float4* balls, Hit* out) {
    float3 way = ways[threadIdx.x];
    float length = sqrtf(way.x * way.x + way.y * way.y + way.z * way.z);
    way.x /= length, way.y /= length, way.z /= length;
    out[threadIdx.x] = nearest(way, balls);
}

//@ sums_with_their_errors nvrtc=12.9:sm_80 grid=1 block=32 : f64[2048,-1,1] out[512]
extern "C" __global__ void sums_with_their_errors(const double* in, double* out) {
    double sum = 0, error = 0;
    for (int i = 0; i < 64; i++) {
        double y = __dsub_rn(in[i * 32 + threadIdx.x] * (1 << i % 20), error), t = __dadd_rn(sum, y);
        error = __dsub_rn(__dsub_rn(t, sum), y);
        sum = t;
    }
    out[2 * threadIdx.x] = sum;
    out[2 * threadIdx.x + 1] = error;
}

//@ steps_of_three_bodies nvcc=13.0:sm_90:-lineinfo grid=1 block=48 : f64[288,-1,1] out[2304]
extern "C" __global__ void steps_of_three_bodies(const double* in, double* out) {
    double p[3][2], v[3][2] = {};
    for (int i = 0; i < 6; i++) p[i / 2][i % 2] = in[threadIdx.x * 6 + i] + i;
    for (int step = 0; step < 20; step++) {
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                if (i != j) {
                    double x = p[j][0] - p[i][0], y = p[j][1] - p[i][1], d = x * x + y * y + 0.1;
                    double f = 0.01 / (d * sqrt(d));
                    v[i][0] += x * f, v[i][1] += y * f;
                }
        for (int i = 0; i < 3; i++) p[i][0] += v[i][0] * 0.5, p[i][1] += v[i][1] * 0.5;
    }
    for (int i = 0; i < 6; i++) out[threadIdx.x * 6 + i] = p[i / 2][i % 2];
}

//@ lines_solved_by_elimination nvcc=13.0:sm_90 grid=1 block=20 : f64[400,1,2] f64[20,-5,5] out[160]
extern "C" __global__ void lines_solved_by_elimination(const double* in, const double* right, double* out) {
    __shared__ double a[20][21];
    __shared__ int pivot;
    int t = threadIdx.x;
    for (int j = 0; j < 20; j++) a[t][j] = in[t * 20 + j];
    a[t][20] = right[t];
    for (int k = 0; k < 20; k++) {
        __syncthreads();
        if (t == 0) {
            pivot = k;
            for (int i = k + 1; i < 20; i++) if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        }
        __syncthreads();
        for (int j = t; j <= 20 && pivot != k; j += 20) {
            double swap = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = swap;
        }
        __syncthreads();
        double factor = t == k ? 0 : a[t][k] / a[k][k];
        if (t != k) for (int j = k; j <= 20; j++) a[t][j] -= factor * a[k][j];
    }
    __syncthreads();
    out[t] = a[t][20] / a[t][t];
}

//@ blurred_and_sharpened nvcc=13.0:sm_80:-Xcicc=-O0 grid=2,2 block=16,16 : f32[1024,0,1] out[4096]
extern "C" __global__ void blurred_and_sharpened(const float* in, float* out) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    const float weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
    float sum = 0;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++)
            sum += weights[dx + 2] * weights[dy + 2] * in[min(max(y + dy, 0), 31) * 32 + min(max(x + dx, 0), 31)];
    out[y * 32 + x] = fminf(fmaxf(in[y * 32 + x] * 2 - sum, 0), 1);
}

//@ random_walks_counted nvcc=13.0:sm_90 grid=4 block=64 : u64[256] out[4096]
extern "C" __global__ void random_walks_counted(const u64* seeds, u32* out) {
    u64 s = seeds[blockIdx.x * 64 + threadIdx.x] | 1;
    int x = 0, y = 0, far = 0, home = 0;
    for (int step = 0; step < 200; step++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        switch (s >> 62) {
            case 0: x++; break;
            case 1: x--; break;
            case 2: y++; break;
            default: y--;
        }
        far = max(far, abs(x) + abs(y));
        home += !x && !y;
    }
    uint4 result = {(u32)x, (u32)y, (u32)far, (u32)home};
    reinterpret_cast<uint4*>(out)[blockIdx.x * 64 + threadIdx.x] = result;
}

//@ ways_through_a_graph nvcc=13.0:sm_90:-lineinfo grid=1 block=64 : i32[256,0,64] out[256]
extern "C" __global__ void ways_through_a_graph(const int* edges, int* out) {
    __shared__ int level[64], changed;
    int t = threadIdx.x;
    level[t] = t ? -1 : 0;
    for (int round = 0;; round++) {
        __syncthreads();
        if (t == 0) changed = 0;
        __syncthreads();
        if (level[t] == round)
            for (int k = 0; k < 4; k++)
                if (atomicCAS(&level[edges[4 * t + k]], -1, round + 1) == -1) changed = 1;
        __syncthreads();
        if (!changed) break;
    }
    out[t] = level[t];
}

//@ groups_that_are_connected nvrtc=12.9:sm_80:-G grid=1 block=96 : i32[192,0,96] out[384]
extern "C" __global__ void groups_that_are_connected(const int2* edges, int* out) {
    __shared__ int root[96];
    int t = threadIdx.x;
    root[t] = t;
    __syncthreads();
    if (t < 60) {
        int a = edges[t].x, b = edges[t].y;
        for (;;) {
            while (atomicAdd(&root[a], 0) != a) a = atomicAdd(&root[a], 0);
            while (atomicAdd(&root[b], 0) != b) b = atomicAdd(&root[b], 0);
            if (a == b) break;
            int low = min(a, b), high = max(a, b);
            if (atomicCAS(&root[high], high, low) == high) break;
        }
    }
    __syncthreads();
    int r = t;
    while (root[r] != r) r = root[r];
    out[t] = r;
}

//@ the_best_of_a_knapsack nvcc=13.0:sm_90 grid=1 block=200 : i32[24,5,60] i32[24,1,100] out[800]
extern "C" __global__ void the_best_of_a_knapsack(const int* weight, const int* value, int* out) {
    __shared__ int best[2][200];
    int t = threadIdx.x;
    best[0][t] = 0;
    for (int i = 0; i < 24; i++) {
        __syncthreads();
        int now = best[i & 1][t], w = weight[i];
        best[~i & 1][t] = t >= w ? max(now, best[i & 1][t - w] + value[i]) : now;
    }
    __syncthreads();
    out[t] = best[0][t];
}

//@ colours_of_other_spaces nvcc=13.0:sm_75 grid=1 block=128 : u8[384] out[512]
extern "C" __global__ void colours_of_other_spaces(const uchar3* in, uchar4* out) {
    uchar3 c = in[threadIdx.x];
    int y = (77 * c.x + 150 * c.y + 29 * c.z) >> 8, high = max(max(c.x, c.y), c.z), low = min(min(c.x, c.y), c.z), hue = 0;
    if (high != low) {
        hue = high == c.x ? 43 * (c.y - c.z) / (high - low) : high == c.y ? 85 + 43 * (c.z - c.x) / (high - low)
            : 171 + 43 * (c.x - c.y) / (high - low);
    }
    out[threadIdx.x] = make_uchar4(y, hue, high ? 255 * (high - low) / high : 0, high);
}

//@ a_stack_of_lambdas nvcc=13.0:sm_90:-G grid=1 block=64 : i32[64,-50,50] out[256]
template <class F, class G> __device__ auto chained(F f, G g) { return [=](int x) { return g(f(x)); }; }
template <int N> struct Power { static __device__ int of(int x) { return x * Power<N - 1>::of(x); } };
template <> struct Power<0> { static __device__ int of(int) { return 1; } };
extern "C" __global__ void a_stack_of_lambdas(const int* in, int* out) {
    int shift = threadIdx.x % 5;
    auto add = [=](int x) { return x + shift; };
    auto all = chained(chained(add, [](int x) { return Power<3>::of(x); }), chained([](int x) { return x >> 1; }, add));
    out[threadIdx.x] = all(in[threadIdx.x]);
}

//@ warps_that_share_their_sums nvrtc=12.9:sm_80 grid=3 block=160 : f64[480,-1,1] out[24]
extern "C" __global__ void warps_that_share_their_sums(const double* in, double* out) {
    __shared__ double sums[5];
    double x = in[blockIdx.x * 160 + threadIdx.x];
    for (int step = 16; step; step /= 2) x += __shfl_down_sync(~0u, x, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3] + sums[4];
}

//@ numbers_kept_in_order nvcc=13.0:sm_90 grid=2 block=96 : i32[192,-100,100] out[768] out[8]
extern "C" __global__ void numbers_kept_in_order(const int* in, int* out, u32* counts) {
    __shared__ u32 before[3];
    int t = threadIdx.x, x = in[blockIdx.x * 96 + t];
    u32 mask = __ballot_sync(~0u, x > 0), lane = t % 32;
    if (lane == 0) before[t / 32] = __popc(mask);
    __syncthreads();
    u32 at = __popc(mask & ((1u << lane) - 1));
    for (int w = 0; w < t / 32; w++) at += before[w];
    if (x > 0) out[blockIdx.x * 96 + at] = x;
    if (t == 95) counts[blockIdx.x] = at + (x > 0);
}
