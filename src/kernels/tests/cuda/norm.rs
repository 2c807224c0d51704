use super::*;

const EPS: f32 = 1e-5;

#[test]
fn rows_as_on_the_processor() {
    for ((n, width), t) in shapes(11).into_iter().flat_map(|s| STORAGE.map(|t| (s, t))) {
        let (x, wide_x) = noise_in(t, n * width, 1);
        let w = noise(width, 2);
        let (mut y, mut rstd) = (junk(n * width), junk(n));
        rms_norm(y.view_mut(), rstd.view_mut(), wide_x.view(), buf(&w).view(), EPS).unwrap();

        let w = Memory::f32(&w);
        let (mut found, mut found_rstd) = (Memory::junk(t, n * width), Memory::junk(DType::F32, n));
        launch!(t, "rms_norm", [n], &mut found, &mut found_rstd, &x, &w, n, width, EPS);
        found.assert_same(&values(&y));
        found_rstd.assert_same(&values(&rstd));

        let mut again = Memory::junk(t, n * width);
        launch!(t, "rms_norm_apply", [n], &mut again, &x, &found_rstd, &w, width);
        assert_eq!(again, found);
    }
}

#[test]
fn gradients_as_on_the_processor() {
    for ((n, width), t) in shapes(12).into_iter().chain([(700, 40)]).flat_map(|s| STORAGE.map(|t| (s, t))) {
        let ((x, wide_x), (dy, wide_dy)) = (noise_in(t, n * width, 1), noise_in(t, n * width, 2));
        let (w, rstd): (Vec<f32>, Vec<f32>) = (noise(width, 3), noise(n, 4).iter().map(|v| v.abs()).collect());
        let (mut dx, mut wanted_dx) = noise_in(t, n * width, 5);
        let dw = noise(width, 6);
        let (mut found_dw, mut wanted_dw) = (Memory::f32(&dw), buf(&dw));
        let outputs = (wanted_dx.view_mut(), Some(wanted_dw.view_mut()));
        let (w_buf, rstd_buf) = (buf(&w), buf(&rstd));
        rms_norm_backward(outputs.0, outputs.1, wide_dy.view(), wide_x.view(), rstd_buf.view(), w_buf.view()).unwrap();

        let (w, rstd) = (Memory::f32(&w), Memory::f32(&rstd));
        launch!(t, "rms_norm_backward", [n], &mut dx, &dy, &x, &rstd, &w, n, width);
        dx.assert_same(&values(&wanted_dx));
        launch!(t, "rms_norm_weight", [width], &mut found_dw, &dy, &x, &rstd, n, width);
        found_dw.assert_same(&values(&wanted_dw));
    }
}
